// Package runtime is the contract of sandbox runtimes: interfaces, types, classes of error.
// It does no I/O and knows no backend.
//
// A sandbox is a set of isolated processes over a codebase that is filtered by
// permission rules. Its life:
//
//	Create ──► created ──Start──► running ──Stop──► stopped ──Start──► running
//	                                 │
//	                     host process killed ──► dead ──Start──► running
//
// Destroy ends it from any state and leaves nothing. What is said here holds
// for every implementation; package runtimetest checks it. A request or a configuration is not a nil
// pointer, unless its method says what nil means: nil panics.
package runtime
