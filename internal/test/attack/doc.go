// Package attack is the table of what a hostile program may try in a sandbox. Each row has
// the outcome on each backend for each caller. One table is the code of the attacks, the
// test's expectation, and docs/attack-matrix.md.
//
//	row ── Do runs in a sandbox, in a process of its own ── an observation
//	    └─ Outside: package attacktest does it on the host ─┘      │ Judge, pure
//	                                                              verdict = Want?
//
// The program ./inside, static, is this package's [Main]. It prints a line for
// each row. A row that can end its sandbox has one of its own ([Alone]).
//
// A test fails if a verdict differs from the table in either direction: also
// what becomes stricter has to be written down.
package attack
