// Package opensandbox serves the HTTP APIs of OpenSandbox over a [service.Fleet]: the
// lifecycle API below /v1, and for each sandbox the API of its agent, execd, below
// /sandboxes/ID/port/44772, and that of its egress proxy below /sandboxes/ID/port/18080.
//
// It translates, and decides nothing: docs/opensandbox.md says what is served, and what is
// answered with 501 and the reason.
package opensandbox
