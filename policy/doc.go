// Package policy puts together the rules for a codebase: a preset, a policy
// file and rules by hand, as package perm has them, and what only a look at the
// codebase tells: which git repositories there are, whose hooks and
// configuration a sandbox must not change, and which files that look like
// secrets git tracks.
//
//	p, err := policy.For(ctx, "/home/ann/project", nil) // the default preset
//	box, err := rt.Create(ctx, &runtime.SandboxConfig{CodebasePath: "/home/ann/project", Permissions: p.Rules})
//
// The command line and the service make their rules with it. The rules hold for
// the codebase as it is: make them anew for each sandbox, and for
// SetPermissions.
//
// # What the host executes
//
// Editors, shells, agents and others execute files because of their names, such as
// .vscode/tasks.json; perm has the list. For guards them at the codebase's root, at the
// tops of git's working trees, and in directories where an editor or an agent has
// settings already; also what such a name leads to as a link, and what a link in the
// user's home, as os.UserHomeDir has it, leads to. Options.File, if it is in the
// codebase, is guarded with every preset.
//
// # Tracked files
//
// A file that a secret pattern of the preset hides, and that git tracks, would
// look deleted inside, and the next commit there would record that. So it is not
// hidden. If git's objects hold the very bytes that are on the disk, hiding
// protects nothing, and the file has the level that it would have without the
// secret patterns. Otherwise it is at most [perm.View]: it is there, and its
// content cannot be read. Rules by hand, in a file or in Options, are not
// touched.
//
// What git tracks is in its index, which a sandbox can write: so an index is
// not believed as such. It is, for one file, in three cases:
//
//   - no rules were made before for a directory that the index is in, so no
//     sandbox could write it;
//   - the file was believed to be tracked at that time or later, as recorded in the
//     state directory, and is still in the index;
//   - the index has the file's inode number, size, and times of change, to the
//     nanosecond. Git writes them when it has looked at the file; a sandbox cannot
//     see them.
//
// A file that is in the index and not believed stays hidden, and is reported.
package policy
