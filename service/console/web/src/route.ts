// A place is what the fragment of the address names: #/s/ID/changes.

export interface Place {
  view: string; // "", "s", "refused", "audit"
  id: string;
  tab: string;
  rest: string;
}

/** place returns where the page is. */
export function place(): Place {
  const [view = "", id = "", tab = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/").map((p) => {
    try {
      return decodeURIComponent(p);
    } catch {
      return "";
    }
  });
  return { view, id, tab, rest: rest.join("/") };
}

/** to returns the address of a place. */
export function to(...parts: string[]): string {
  return "#/" + parts.map(encodeURIComponent).join("/");
}

/** go goes to a place. */
export function go(...parts: string[]): void {
  location.hash = to(...parts);
}
