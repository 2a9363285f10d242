package audit

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Logs reads several logs as one, in the order of the times of their records. The caller of
// OpenAll closes it. It is not safe for concurrent use.
type Logs struct {
	readers []*Reader
	next    []*Record // of each reader; nil: not read yet
}

// OpenAll opens the logs at paths. A missing log is empty.
func OpenAll(paths ...string) (*Logs, error) {
	l := &Logs{next: make([]*Record, len(paths))}
	for _, path := range paths {
		r, err := Open(path)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.readers = append(l.readers, r)
	}
	return l, nil
}

// Close releases the readers.
func (l *Logs) Close() error {
	var errs []error
	for _, r := range l.readers {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// Skipped returns the number of invalid lines so far.
func (l *Logs) Skipped() (n int64) {
	for _, r := range l.readers {
		n += r.Skipped()
	}
	return n
}

// Next returns the next record, or io.EOF if the log has no further record yet.
func (l *Logs) Next() (Record, error) {
	first := -1
	for i, r := range l.readers {
		if l.next[i] == nil {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				continue
			}
			if err != nil {
				return Record{}, err
			}
			l.next[i] = &rec
		}
		if first < 0 || l.next[i].Time.Before(l.next[first].Time) {
			first = i
		}
	}
	if first < 0 {
		return Record{}, io.EOF
	}
	rec := *l.next[first]
	l.next[first] = nil
	return rec, nil
}

// Each calls each with every present record in order, until there is an error.
func (l *Logs) Each(each func(Record) error) error {
	for {
		rec, err := l.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(rec)
		}
		if err != nil {
			return err
		}
	}
}

// More calls each with the records that were written since the last call of it or of Each, until
// there is an error. It does not wait for others.
func (l *Logs) More(each func(Record) error) error {
	for {
		if err := l.Each(each); err != nil {
			return err
		}
		found := false
		for _, r := range l.readers {
			more, err := r.more()
			if err != nil {
				return err
			}
			found = found || more
		}
		if !found {
			return nil
		}
	}
}

// Follow does as Each, and then calls each with every future record of each log; otherwise it is as
// [Reader.Follow]. Calls of each do not overlap.
func (l *Logs) Follow(ctx context.Context, alive string, each func(Record) error) error {
	if err := l.Each(each); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var first error // guarded by mu
	var following sync.WaitGroup
	for _, r := range l.readers {
		following.Go(func() {
			err := r.Follow(ctx, alive, func(rec Record) error {
				mu.Lock()
				defer mu.Unlock()
				return each(rec)
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
				cancel()
			}
		})
	}
	following.Wait()
	return first
}
