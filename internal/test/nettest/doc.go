// Package nettest tries the clients that people use, in sandboxes with a network by name. It also runs
// programs that try to get around the rules. The servers are its own. It has tests only.
//
// The servers, the sandboxes and wolffia are in a network namespace of the test: addresses there look
// public or private as the test needs them, and no packet leaves the machine.
package nettest
