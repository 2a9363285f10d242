package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A Line is a line of the log.
type Line struct {
	Entry        // the zero Entry if the line is not one
	Text  []byte // without its end
	Hash  string // its SHA-256, in hexadecimal
	Valid bool   // it is an entry
	File  string // base name
	Row   int    // in the file, from 1 on
}

// Each calls each with the lines of the log of a state directory, oldest first, until that returns an
// error, which it returns. A missing log is empty. Text is valid until each returns.
func Each(state string, each func(*Line) error) error {
	dir := filepath.Join(state, "history")
	if _, err := os.Lstat(older(dir, 0)); err == nil { // else no writer has made it since the last shift
		held, err := newest(dir, unix.LOCK_SH) // no file becomes an older one meanwhile
		if err != nil {
			return err
		}
		defer held.Close()
	}
	for n := maxFiles - 1; n >= 0; n-- {
		if err := eachOf(older(dir, n), each); err != nil {
			return err
		}
	}
	return nil
}

// eachOf is Each for one file, which may be missing.
func eachOf(path string, each func(*Line) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(f, 2*maxFile))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	row := 0
	for line := range bytes.Lines(text) {
		row++
		line, ended := bytes.CutSuffix(line, []byte{'\n'})
		if !ended && len(text) < 2*maxFile {
			continue // it is being written, or its writer was killed: the next one says so
		}
		l := &Line{Text: line, Hash: hash(line), File: filepath.Base(path), Row: row}
		l.Valid = json.Unmarshal(line, &l.Entry) == nil
		if !l.Valid {
			l.Entry = Entry{}
		}
		if err := each(l); err != nil {
			return err
		}
	}
	return nil
}

// Read returns the command line's own commands from a time on, oldest first: not those that clients of
// a service or of the console have run. A missing history is empty. Lines that are
// not entries, as after a crash, are left out.
func Read(state string, since time.Time) (all []Entry, err error) {
	err = Each(state, func(l *Line) error {
		if l.Valid && l.Kind == KindCommand && l.Who == "" && !l.Time.Before(since) {
			all = append(all, l.Entry)
		}
		return nil
	})
	return all, err
}
