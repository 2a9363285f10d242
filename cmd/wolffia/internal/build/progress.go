package build

import (
	"fmt"
	"io"
	"strings"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/internal/excerpt"
)

// A progress prints steps as BuildKit's plain progress does.
type progress struct {
	w io.Writer
	n int
	// kept is what the step has printed, if only one that fails is printed; else nil
	kept *excerpt.Excerpt
}

// keptOutput is how much a quiet build prints of a step that fails, in bytes: the end.
const keptOutput = 256 << 10

// A vertex is one step that is printed.
type vertex struct {
	p     *progress
	n     int
	start time.Time
}

// begin prints the title of a step.
func (p *progress) begin(title string) *vertex {
	p.n++
	if p.kept != nil {
		p.kept = excerpt.New(keptOutput, keptOutput)
	}
	v := &vertex{p, p.n, time.Now()}
	v.print("%s", console.Printable(title))
	return v
}

func (v *vertex) print(format string, args ...any) {
	v.p.write(fmt.Sprintf("#%d %s\n", v.n, fmt.Sprintf(format, args...)))
}

func (p *progress) write(text string) {
	if p.kept != nil {
		_, _ = p.kept.Write([]byte(text))
		return
	}
	_, _ = io.WriteString(p.w, text)
}

// line prints a line of a command's output, which is hostile.
func (v *vertex) line(text string) {
	v.print("%.3f %s", time.Since(v.start).Seconds(), console.Printable(strings.TrimRight(text, "\r\n")))
}

// end prints how the step has ended.
func (v *vertex) end(cached bool, err error) {
	switch {
	case err != nil:
		v.print("ERROR: %s", console.Printable(err.Error()))
	case cached:
		v.print("CACHED")
	default:
		v.print("DONE %.1fs", time.Since(v.start).Seconds())
	}
	v.p.write("\n")
	if v.p.kept != nil && err != nil {
		text, _ := v.p.kept.Result()
		_, _ = v.p.w.Write(text)
	}
}
