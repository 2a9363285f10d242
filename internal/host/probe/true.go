package probe

import (
	"errors"
	"io"
	"os"

	"wolffia/internal/sys/tinyprogram"
)

// trueAddress returns where the code of openTrue is, in true_*.s.
func trueAddress() uintptr

// openTrue returns a program that does nothing, as true(1), which a host need not have. It is to be read from its
// beginning. The caller closes it.
func openTrue() (*os.File, error) {
	f, err := tinyprogram.File("true", tinyprogram.Of(trueAddress()))
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
