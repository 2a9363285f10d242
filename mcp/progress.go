package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	progressGap  = 250 * time.Millisecond // between two notifications, at least
	progressBeat = 5 * time.Second        // at most, so that the client sees that the call goes on
)

// A progress sends notifications about a long call, if the client has asked for them.
type progress struct {
	changed chan struct{}
	stopped chan struct{}
	ended   chan struct{}
}

// progress begins to notify the client. message is called for each notification.
func (c *call) progress(ctx context.Context, message func() string) *progress {
	p := &progress{changed: make(chan struct{}, 1), stopped: make(chan struct{}), ended: make(chan struct{})}
	token := c.req.Params.GetProgressToken()
	if token == nil {
		close(p.ended)
		return p
	}
	go func() { // ends with stop
		defer close(p.ended)
		beat := time.NewTicker(progressBeat)
		defer beat.Stop()
		for {
			select {
			case <-p.stopped:
				return
			case <-p.changed:
			case <-beat.C:
			}
			err := c.req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: token, Progress: time.Since(c.begin).Seconds(), Message: message(),
			})
			if err != nil {
				return // the client is gone, or the call was canceled
			}
			gap := time.NewTimer(progressGap)
			select {
			case <-p.stopped:
				gap.Stop()
				return
			case <-gap.C:
			}
		}
	}()
	return p
}

// news says that message has something new. It does not block.
func (p *progress) news() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// stop ends the notifications, and waits for the one that is being sent.
func (p *progress) stop() {
	close(p.stopped)
	<-p.ended
}
