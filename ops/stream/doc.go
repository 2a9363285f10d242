// Package stream sends events of a command to HTTP clients as they happen.
//
// It keeps those of commands that may go on without a client, for a client that comes back; what a
// client types for a terminal waits in an [Input].
package stream
