// Package registry is the service's index of owners and sandboxes, a file that
// outlives the service. The state directory is the truth about which sandboxes
// there are: what the index says beyond it is removed by [Registry.Reconcile],
// and an index that is lost or damaged is made anew from it by [Rebuild].
//
// The file is registry.db in the state directory, of go.etcd.io/bbolt. Its
// buckets, in schema 1:
//
//	meta        "version"   ──► the schema's number, 8 bytes, big endian
//
//	sandboxes   SANDBOX ID  ──► JSON of Metadata          those that are ready
//	reserved    SANDBOX ID  ──► JSON of Metadata          those being made
//	                                 ▲
//	owners      OWNER KEY   ──► SANDBOX ID, of either     at most one per owner
//
// An owner's key is its three parts, each behind its length (a uvarint), so that
// no two owners have one key. A record counts only if all of it is valid, its id
// is its key, and for a look-up by owner also its owner is who was asked for:
// anything else is as if it were not there.
//
// Beside it is registry.lock, which is never replaced and is locked as long as a
// Registry is open: one service at a time.
package registry
