package main

import (
	"errors"
	"os"
	"os/exec"
	goruntime "runtime"

	"golang.org/x/sys/unix"
)

// echoCommand begins the arguments of this program as the process that sends each byte back.
const echoCommand = "echo"

// wakeUps measures what two processes need that take turns: on two processors, of which each sleeps meanwhile, and on one. It is
// the floor of whatever waits for another process.
func (b *bench) wakeUps() error {
	for _, apart := range []bool{true, false} {
		name := "a byte to another process and back, on one processor"
		if apart {
			name = "a byte to another process and back, on two processors"
		}
		var t times
		done := make(chan error)
		go func() { done <- turns(apart, &t) }()
		if err := <-done; err != nil {
			b.notMeasured(name, err)
			continue
		}
		b.row(name, t, "")
	}
	return nil
}

// turns has a byte sent to another process and back, and adds how long each time took to t. apart: the processes have a
// processor each, else one for both. It locks its thread, which ends with the goroutine.
func turns(apart bool, t *times) error {
	const rounds, warm = 5000, 500
	goruntime.LockOSThread()
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	if apart && may.Count() == 1 {
		return errors.New("there is one only")
	}
	theirs := nth(&may, 0)
	if err := unix.SchedSetaffinity(0, &theirs); err != nil { // what this thread starts inherits it
		return err
	}
	var to, from [2]int
	for _, p := range []*[2]int{&to, &from} {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return err
		}
	}
	c := exec.Command("/proc/self/exe", echoCommand)
	in, out := os.NewFile(uintptr(to[0]), "pipe"), os.NewFile(uintptr(from[1]), "pipe")
	c.Stdin, c.Stdout = in, out
	if err := errors.Join(c.Start(), in.Close(), out.Close()); err != nil {
		return err
	}
	if apart {
		ours := nth(&may, may.Count()-1)
		if err := unix.SchedSetaffinity(0, &ours); err != nil {
			return err
		}
	}
	defer func() {
		_ = unix.Close(to[1]) // it ends then
		_ = unix.Close(from[0])
		_ = c.Wait()
	}()
	for i := range rounds + warm {
		d, err := took(func() error { return bounce(to[1], from[0]) })
		if err != nil {
			return err
		}
		if i >= warm {
			*t = append(*t, d)
		}
	}
	return nil
}

// nth returns the set of the processor in set that has i others of set before it.
func nth(set *unix.CPUSet, i int) (one unix.CPUSet) {
	for cpu := 0; ; cpu++ {
		if !set.IsSet(cpu) {
			continue
		}
		if i == 0 {
			one.Set(cpu)
			return one
		}
		i--
	}
}

// bounce writes a byte, and waits for one. It does without package os, whose poller has threads of its own.
func bounce(to, from int) error {
	buf := []byte{0}
	if _, err := unix.Write(to, buf); err != nil {
		return err
	}
	_, err := unix.Read(from, buf)
	return err
}

// echo is that process: it sends each byte of its standard input back, until the end.
func echo() error {
	buf := make([]byte, 1)
	for {
		n, err := unix.Read(0, buf)
		if n <= 0 {
			return err
		}
		if _, err := unix.Write(1, buf); err != nil {
			return err
		}
	}
}
