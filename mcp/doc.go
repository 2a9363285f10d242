// Package mcp serves one sandbox to a client of the Model Context Protocol: a shell that keeps
// its state, background jobs, and files.
//
// The sandbox is made when the client has initialized the protocol, or at the first call that
// needs it. All commands run in it, and all files are read and written by commands in it, so
// that its rules decide; nothing is done at a path of the host.
//
// What a sandbox sends is bounded, and made valid UTF-8, before it becomes a result.
package mcp
