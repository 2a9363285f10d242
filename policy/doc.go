// Package policy makes the rules for a codebase. They are those of package perm, from
// a preset, a policy file and rules by hand, and those that depend on the content of the
// codebase: which bare git repositories it has, what the configuration of its repositories
// names in the working tree, and which files that look like secrets git tracks.
//
//	p, err := policy.For(ctx, "/home/ann/project", nil) // the default preset
//	box, err := rt.Create(ctx, &runtime.SandboxConfig{CodebasePath: "/home/ann/project", Permissions: p.Rules})
//
// The command line and the service make all their rules with For, so that a program
// that calls it has the same protection. The rules hold for the codebase as it is: call
// For again for each sandbox, and for SetPermissions.
//
// # What the host executes
//
// Editors, shells, agents and others execute files because of their names, such as
// .vscode/tasks.json; perm has the list. For makes them read-only at the codebase's
// root, at the tops of git's working trees, and in directories where an editor or an
// agent has settings already; also the targets of links with such names, in the codebase
// and in the user's home (os.UserHomeDir). Options.File, if it is in the codebase, is
// read-only with every preset.
//
// # Tracked files
//
// A file that a secret pattern of the preset hides and that git tracks would look
// deleted inside, and the next commit there would record that. So it is not hidden. If
// git tracks the very bytes that are on the disk, hiding protects nothing, and the
// file has the level that it would have without the secret patterns. Otherwise it is at
// most [perm.View]: it exists, and its content cannot be read. Rules by hand, in a file
// or in Options, keep their effect.
//
// Git's index on the host lists what git tracks. No sandbox writes it: each .git inside
// is the sandbox's own.
package policy
