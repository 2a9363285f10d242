import type { Place } from "./route";

/** A Closer ends a view: its listeners, requests and connections. */
export interface Closer {
  close(): void;
  /** moved is called when only the tab or what is behind it differs, and reports whether the view has shown that. */
  moved?(p: Place): boolean;
}

export type View = (main: HTMLElement, p: Place) => Closer;
