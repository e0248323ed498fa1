package oncegate

import (
	"context"
	"errors"
)

// ErrNothingWritten, returned by a Sink, says that not one of its ids was written: they are free for everyone at once.
// After any other error nobody knows, and they are held until their lease ends.
var ErrNothingWritten = errors.New("nothing was written")

// Sink writes what these ids stand for, and returns when that is durable.
type Sink func(ctx context.Context, ids []string) error

// Counts is what became of the ids of a Write; Takeovers of Written may be there twice.
type Counts struct{ Written, Duplicates, Takeovers int }

// Write returns when every id is written: by sink, which is given those that were granted, or by someone before. It
// waits for what others hold and renews its own lease while sink runs.
func (a *Attempt) Write(ctx context.Context, ids []string, sink Sink) (counts Counts, err error) {
	for try := 0; len(ids) > 0; try++ {
		claimed, err := a.Claim(ctx, ids)
		if err != nil {
			return counts, err
		}
		counts.Duplicates += claimed.Duplicates
		counts.Takeovers += claimed.Takeovers
		ids = claimed.Busy
		if len(claimed.Granted) > 0 {
			settled, err := a.write(ctx, claimed, sink)
			if err != nil {
				return counts, err
			}
			counts.Written += settled.Settled
			if settled.TakenOver > 0 { // not said which: of a new call those that are ours are DUPLICATE, own
				ids = append(ids, claimed.Granted...)
			}
		}
		wait := backoff(try, 0) // not the whole lease: its holder may complete before
		if claimed.Wait > 0 && claimed.Wait < wait {
			wait = claimed.Wait
		}
		if len(ids) > 0 && pause(ctx, wait) != nil {
			busy := "another attempt holds " + ids[0]
			return counts, &Error{Code: "BUSY", Detail: busy, Action: "retry", Effect: "none", cause: ctx.Err()}
		}
	}
	return counts, nil
}

func (a *Attempt) write(ctx context.Context, claimed Claimed, sink Sink) (Settled, error) {
	writing, stop := context.WithCancel(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		defer stop() // a claim that cannot be renewed: no more is to be written under it
		for pause(writing, claimed.Lease/3) == nil {
			if _, err := a.client.Settle(writing, claimed.ID, "renew"); err != nil {
				return
			}
		}
	}()
	err := sink(writing, claimed.Granted)
	stop()
	<-renewed
	if errors.Is(err, ErrNothingWritten) {
		if _, failed := a.client.Settle(ctx, claimed.ID, "release"); failed != nil {
			return Settled{}, failed
		}
	}
	if err != nil {
		return Settled{}, err
	}
	return a.client.Settle(ctx, claimed.ID, "complete")
}
