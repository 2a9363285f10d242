package store

// Limits bound the size of an image: a compressed layer of a few kilobytes can expand to
// any amount of data. A zero field means the default.
type Limits struct {
	Size   int64 // bytes of all files together, and of all uncompressed layers; default 64 GiB
	Files  int   // names of any kind; default 2,000,000
	Layers int   // default 512
}

// maxNames bounds the memory for the names of one layer, in bytes.
const maxNames = 256 << 20

func (l Limits) withDefaults() Limits {
	if l.Size <= 0 {
		l.Size = 64 << 30
	}
	if l.Files <= 0 {
		l.Files = 2_000_000
	}
	if l.Layers <= 0 {
		l.Layers = 512
	}
	return l
}
