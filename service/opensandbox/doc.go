// Package opensandbox serves the HTTP APIs of OpenSandbox over a [service.Service].
//
//	/v1/sandboxes                lifecycle
//	/sandboxes/ID/port/44772/    execd, the agent in a sandbox: commands, sessions, files
//	/sandboxes/ID/port/18080/    the egress proxy of a sandbox: its policy
//
// It translates, and decides nothing: docs/opensandbox.md says what is served, and what is
// answered with 501 and the reason.
package opensandbox
