"""A package, so that its browser and server end with it: Playwright's event loop must not outlive them."""
