// Package cow keeps the changes of a copied codebase beside the host's directory. It has the
// format on the disk, and all operations on the changes apart from serving them: list, show,
// apply, discard, copy.
//
// A copied codebase is the host's directory, the lower layer, and a directory of changes beside
// it, the upper layer:
//
//   - A file of the upper layer hides the host's object at its path.
//   - A whiteout, a character device 0:0, hides the host's object and shows nothing.
//   - A directory is merged with the host's, its lower half. Its lower half has the same name in
//     the lower half of its parent, unless the attribute AttrLower says otherwise.
//
// A Log beside the layers records the host's object at each path when the upper layer first hid
// it.
//
// All content is a sandbox's and hostile: it is reached by descriptors, no link is followed, and
// reads into memory are bounded.
package cow
