"""A button that shows the code behind a panel's picture and puts it on the clipboard."""

from __future__ import annotations

import anywidget
import traitlets

__all__ = ["CopyButton"]


class CopyButton(anywidget.AnyWidget):
    """`code` is what the button shows and copies; it follows the panel's state."""

    _esm = """
    function render({ model, el }) {
      const button = document.createElement("button");
      const said = document.createElement("span");
      const shown = document.createElement("pre");
      button.className = "jupyter-widgets jupyter-button widget-button clairvoyant-copy";
      button.type = "button"; button.textContent = "Copy as code";
      button.style.width = "140px";
      said.setAttribute("role", "status"); said.style.marginLeft = "8px";
      shown.hidden = true; shown.tabIndex = 0; shown.className = "clairvoyant-code";
      shown.style.cssText = "background:#f8fafc;color:#1f2937;border:1px solid #e5e7eb;padding:8px;" +
        "overflow-x:auto;white-space:pre;font-size:12px;line-height:1.45;margin-top:6px";
      const fill = () => { shown.textContent = model.get("code"); said.textContent = ""; };
      model.on("change:code", fill); fill();
      button.addEventListener("click", async () => {
        shown.hidden = false;
        try {
          await navigator.clipboard.writeText(model.get("code"));
          said.textContent = "copied";
        } catch (error) {
          // no clipboard without https or localhost: the text is selected instead
          const range = document.createRange(); range.selectNodeContents(shown);
          const selection = window.getSelection(); selection.removeAllRanges(); selection.addRange(range);
          said.textContent = "selected: press Ctrl-C";
        }
      });
      el.append(button, said, shown);
    }
    export default { render };
    """
    code = traitlets.Unicode("").tag(sync=True)
