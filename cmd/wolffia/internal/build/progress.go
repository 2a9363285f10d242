package build

import (
	"fmt"
	"io"
	"strings"
	"time"

	"wolffia/cmd/wolffia/internal/console"
)

// A progress prints steps as BuildKit's plain progress does.
type progress struct {
	w io.Writer
	n int
}

// A vertex is one step that is printed.
type vertex struct {
	p     *progress
	n     int
	start time.Time
}

// begin prints the title of a step.
func (p *progress) begin(title string) *vertex {
	p.n++
	v := &vertex{p, p.n, time.Now()}
	v.print("%s", console.Printable(title))
	return v
}

func (v *vertex) print(format string, args ...any) {
	fmt.Fprintf(v.p.w, "#%d %s\n", v.n, fmt.Sprintf(format, args...))
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
	fmt.Fprintln(v.p.w)
}
