// Package fields is the table of settings: what a caller can set of a sandbox, who may set it, and how.
//
// The flags of the command line, the keys of configuration files and their JSON schema, completion, the groups
// of flags in help, the shape of pooled sandboxes, what a request to the service may set, and the tables in
// docs are made of [Table]. A new setting is a row of it, the code that uses the value, and a test of that use.
package fields
