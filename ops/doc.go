// Package ops does for every front end what a caller asks of a sandbox: a front end only
// translates.
package ops
