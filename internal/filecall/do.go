package filecall

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/archive"
	"wolffia/internal/dirwatch"
)

// operations are what Do can do, by name.
var operations = map[string]func(*Request, *Reply) error{
	OpRead: onPath(read), OpEdit: onPath(edit), OpTree: onPath(tree), OpGlob: onPath(glob), OpGrep: onPath(grep),

	OpInfo: func(q *Request, r *Reply) error {
		return errors.Join(each(q.Paths, r.add), r.complete(q))
	},
	OpList: func(q *Request, r *Reply) error {
		return errors.Join(r.list(q.Path, max(q.Depth, 1)), r.complete(q))
	},
	OpSearch: func(q *Request, r *Reply) error { return r.search(q.Path, q.Pattern) },
	OpRemove: func(q *Request, _ *Reply) error { return each(q.Paths, remove) },
	OpRmdir:  func(q *Request, _ *Reply) error { return each(q.Paths, rmdir) },
	OpMkdir: func(q *Request, _ *Reply) error {
		return eachMode(q.Modes, func(p string) error {
			err := os.MkdirAll(p, 0o777)
			if errors.Is(err, unix.ENOTDIR) {
				return errorf(KindExists, "%q: a file has this name, or that of a directory above it", p)
			}
			return err
		})
	},
	OpMode: func(q *Request, _ *Reply) error {
		return eachMode(q.Modes, func(p string) error { // also where nothing is to be changed
			_, err := os.Stat(p)
			return err
		})
	},
	OpMove:    func(q *Request, _ *Reply) error { return each(q.Moves, Move.do) },
	OpReplace: replace,
	OpNewDir:  onPath(newDir),
	OpDelete:  func(q *Request, _ *Reply) error { return each(q.Paths, deleteAll) },
	OpJoin:    onPath(joinFiles),
	OpHome: func(q *Request, r *Reply) error {
		u, err := user.Lookup(q.Pattern)
		if err != nil {
			return wrong("user %q: the sandbox has none", q.Pattern)
		}
		r.Path = u.HomeDir
		return nil
	},
	OpPatch: onPath(patch),
	OpHost: func(_ *Request, r *Reply) (err error) {
		r.Host, err = host()
		return err
	},
}

// onPath returns an operation that needs a path.
func onPath(do func(*Request, *Reply) error) func(*Request, *Reply) error {
	return func(q *Request, r *Reply) error {
		if q.Path == "" {
			return wrong("the path is empty")
		}
		return do(q, r)
	}
}

// Do does what a request asks for.
func Do(q *Request) *Reply {
	r := &Reply{}
	do := operations[q.Op]
	if do == nil {
		return &Reply{Err: Unknown(q.Op)}
	}
	if err := do(q, r); err != nil {
		r.Err = errorOf(err)
	}
	return r
}

// Unknown is the error for an operation that this version does not have.
func Unknown(op string) *Error { return errorf(KindInvalid, "operation %q: it does not exist", op) }

// kinds maps errors of the operating system to kinds; the first match counts.
var kinds = []struct {
	err  error
	kind string
}{
	{fs.ErrNotExist, KindMissing},
	{fs.ErrExist, KindExists},
	{fs.ErrPermission, KindDenied},
	{unix.EROFS, KindDenied},
	{archive.ErrNotRegular, KindNotRegular},
	{unix.EISDIR, KindNotRegular},
	{unix.ENOSPC, KindFull},
	{unix.EDQUOT, KindFull},
	{unix.ENOTSUP, KindNoAttrs},
	{archive.ErrTooLarge, KindTooLarge},
	{unix.ENOTDIR, KindNotDir},
	{unix.ELOOP, KindLoop},
	{unix.EINVAL, KindName},
	{unix.ENAMETOOLONG, KindName},
}

func errorOf(err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if refused, ok := errors.AsType[dirwatch.Refusal](err); ok {
		return errorf(KindInvalid, "%s", refused)
	}
	e := &Error{Kind: KindOther, Message: err.Error()}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			e.Kind = k.kind
			break
		}
	}
	var failed *fs.PathError
	var renamed *os.LinkError
	switch {
	case errors.As(err, &failed):
		e.Cause = failed.Err.Error()
	case errors.As(err, &renamed):
		e.Cause = renamed.Err.Error()
	case errors.Is(err, archive.ErrNotRegular):
		e.Cause = archive.ErrNotRegular.Error()
	}
	return e
}

// errorf returns an Error of a kind.
func errorf(kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// wrong returns the error for a wrong request.
func wrong(format string, args ...any) error { return errorf(KindInvalid, format, args...) }

// each does the same with each of a list, up to the first error.
func each[T any](all []T, do func(T) error) error {
	for _, x := range all {
		if err := do(x); err != nil {
			return err
		}
	}
	return nil
}

// eachMode does something with each path, and then applies its mode.
func eachMode(modes map[string]Mode, do func(string) error) error {
	return each(sorted(modes), func(p string) error {
		if err := do(p); err != nil {
			return err
		}
		m := modes[p]
		return m.apply(p)
	})
}

// sorted returns the keys of a map in their order.
func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
