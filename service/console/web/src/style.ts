// Under the page's policy a <style> element has no effect. xterm.js makes <w-style> instead (gen/bundle.go), whose text becomes
// a style sheet of the document for as long as the element is in it.

class Style extends HTMLElement {
  private sheet = new CSSStyleSheet();

  override set textContent(text: string | null) {
    this.sheet.replaceSync(text ?? "");
  }

  override get textContent(): string {
    return "";
  }

  connectedCallback(): void {
    this.hidden = true;
    document.adoptedStyleSheets.push(this.sheet);
  }

  disconnectedCallback(): void {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== this.sheet);
  }
}

/** defineStyle makes <w-style> known. */
export function defineStyle(): void {
  customElements.define("w-style", Style);
}
