// Package registry is the service's index from owners to sandboxes, a file that
// outlives the service. The sandboxes in the state directory are the truth:
// [Registry.Reconcile] corrects the index by them, and [Open] replaces a damaged
// index with an empty one.
//
// The file is registry.db in the state directory, of go.etcd.io/bbolt; docs/state.md
// has its buckets. An owner has at most one sandbox in both together. The checksum at
// the end shows a damaged file before bbolt maps a page. The index is in memory while a
// Registry is open; each change replaces the whole file, and returns when the new one is
// on the disk.
//
// Beside it is registry.lock, which is never replaced and is locked as long as a
// Registry is open: one service per state directory.
package registry
