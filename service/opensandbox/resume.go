package opensandbox

import (
	"context"
	"errors"
	"net/http"
	"time"

	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
)

// runResumable runs a command that goes on for some time without its client, and serves its first one.
func (d *execd) runResumable(w http.ResponseWriter, r *http.Request, in *service.Inside, params *runtime.Command, within time.Duration) error {
	begin := time.Now()
	started := make(chan struct{})
	c, err := in.Run(r.Context(), params, func() { close(started) })
	if err != nil {
		return commandFault(err)
	}
	stop := context.AfterFunc(r.Context(), func() { _ = c.Close() })
	if params.Session == "" { // else it exists: the command begins, or waits for others
		waited := make(chan error, 1)
		go func() { // ends with the command
			_, err := c.Wait(context.Background())
			waited <- err
		}()
		select {
		case <-started:
		case err := <-waited:
			if err != nil {
				if !stop() {
					err = canceled(r.Context())
				}
				_ = c.Close()
				return commandFault(err)
			}
		}
	}
	if !stop() { // the client has gone already
		return nil
	}
	run := func(to stream.Sender[event]) {
		stream.Follow(to, []event{{Type: "init", Text: c.ID}, pong}, pong, func() event {
			exit, err := follow(to, c)
			return lastEvent(exit, err, time.Since(begin))
		}, func() { _ = c.Close() })
	}
	of := in.Sandbox()
	l, err := d.kept.Begin(stream.Key{SandboxID: of.ID, Command: c.ID}, of.Owner, within, run, func() { _ = c.Close() })
	if err != nil {
		return err
	}
	return l.Serve(r.Context(), d.newStream(w), 0)
}

// resumeCommand serves GET /command/{command}/resume.
func (d *execd) resumeCommand(w http.ResponseWriter, r *http.Request, in *service.Inside, id string) error {
	after, err := offset(r, "after_eid", "the eid of an event")
	if err != nil {
		return err
	}
	l := d.kept.Get(stream.Key{SandboxID: in.Sandbox().ID, Command: id})
	if l == nil {
		if _, _, err := in.Status(r.Context(), id); err != nil {
			return unknownCommand(err)
		}
		return &fault{http.StatusConflict, "CONFLICT", "the command cannot be resumed: begin one with resumeWithin, or in the background, whose output is at /command/ID/logs"}
	}
	if err = l.Serve(r.Context(), d.newStream(w), int64(after)); errors.As(err, new(stream.LostError)) {
		return &fault{http.StatusGone, "EVENTS_LOST", err.Error()}
	}
	return unknownCommand(err)
}
