// Package fields is the table of settings: what a caller can set of a sandbox, who may set it, and
// how.
//
// The flags of the command line, the keys of configuration files and their JSON schema,
// completion, the groups of flags in help, the shape of pooled sandboxes, the create request of
// OpenSandbox's API, and the tables in docs are made of [Table]. The native API has its own
// members, in service/server/calls.go. A new setting is a row of Table, the code that uses the
// value, and a test of that use; CONTRIBUTING.md says what else.
package fields
