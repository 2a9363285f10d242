package hint

import (
	"io"
	"slices"

	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/internal/excerpt"
	"wolffia/ops"
	"wolffia/runtime"
)

// watchedTail is how much of the end of each stream an outputWatch keeps, in bytes.
const watchedTail = 8 << 10

// An outputWatch keeps the end of a command's output, in which programs say that they found no
// host of a name, or no repository. What a sandbox does not show at all has no other witness.
type outputWatch struct {
	sb      *runtime.Sandbox
	command []string
	streams []*excerpt.Excerpt
}

// WatchOutput returns an outputWatch for a command in a sandbox, and the writers that pass
// output on to w.
func WatchOutput(sb *runtime.Sandbox, command []string, w ...io.Writer) (*outputWatch, []io.Writer) {
	watch := &outputWatch{sb: sb, command: command}
	w = slices.Clone(w)
	for i := range w {
		tail := excerpt.New(watchedTail, watchedTail)
		watch.streams = append(watch.streams, tail)
		w[i] = io.MultiWriter(w[i], tail)
	}
	return watch, w
}

// Hint returns a line about a command that has ended with a code, if it failed because the
// sandbox has no network, shows a part of a repository, or the kernel refused what no sandbox gives,
// or if it begins with an image; else an empty string. create says that this command line describes the sandbox. The output is the
// sandbox's: it can only have a name proposed, which is printed, or a constant line.
func (o *outputWatch) Hint(code int, create bool) string {
	if code == 0 {
		return ""
	}
	for _, s := range o.streams {
		tail, _ := s.Result()
		text := string(tail)
		if o.sb.Network == runtime.NetworkNone {
			if name, found := lookedUp(text); found {
				return noNetworkHint(name, text, create)
			}
		}
		if note := partHint(text, o.sb.CodebasePath, create); note != "" {
			return note
		}
		if note := ops.KernelHint(text, func() bool { return o.sb.Root }); note != "" {
			return note
		}
	}
	if create && o.sb.Image == "" {
		here, _ := hostdir.Current()
		return imageNote(o.command, here)
	}
	return ""
}
