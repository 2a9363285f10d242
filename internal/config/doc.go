// Package config decides what configuration files change of the flags of a command.
//
// A file's keys are the long names of the flags (rules for --rule). There are two files:
// the user's own, and the project's, which is at the root of the codebase and came with
// it. The project's is hostile until the user has read it, and what it says is bound by
// the user's own file even then: bind.go has the rule of each key. The package knows no
// flags itself; its caller makes the keys of them.
package config
