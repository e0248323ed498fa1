// Package oncegate asks an Oncegate gateway before writing, so that retried writes take effect once.
// Written from the gateway's OpenAPI document alone, with the standard library of Go 1.19.
package oncegate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Error is a call without success. Action says what to do: "retry" the same call later, "fix" the request, or "stop"
// this attempt. Effect is "unknown" when this call, or an earlier try of it, may have taken effect all the same.
type Error struct {
	Code, Detail, Action, Effect string
	TraceID                      string `json:"trace_id"`
	RetryAfterMs                 int64  `json:"retry_after_ms"`
	cause                        error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s (%s, effect %s): %s (trace_id %s)", e.Code, e.Action, e.Effect, e.Detail, e.TraceID)
}

func (e *Error) Unwrap() error { return e.cause }

// Client speaks to one namespace; goroutines may share it. A try that is not answered within HTTP.Timeout counts as
// lost and is repeated. Mark holds the newest place in the ledger that an answer named, and goes with every request:
// who keeps it over a restart learns of a gateway that has lost what it knew.
type Client struct {
	URL  string // http://127.0.0.1:8080/v1/namespaces/default
	HTTP http.Client
	Mark atomic.Value // string
}

// Attempt is one try of one task, for one goroutine. Its retries share its token; the next try of the task is another
// attempt. Lease 0 asks for the gateway's usual one.
type Attempt struct {
	Lease  time.Duration
	client *Client
	token  string
	calls  uint32
}

// Claimed is what a claim was told: write Granted, then complete ID; drop the duplicates; neither write nor drop Busy,
// but ask again in a new call: their holder's lease ends after Wait at the latest.
type Claimed struct {
	ID                    string
	Lease, Wait           time.Duration
	Granted, Busy         []string
	Duplicates, Takeovers int
}

// Settled counts the ids that still named the claim, and those that another attempt has taken over.
type Settled struct {
	Settled   int
	TakenOver int `json:"taken_over"`
}

// Attempt begins an attempt with a token of its own.
func (c *Client) Attempt() *Attempt {
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		panic(err)
	}
	return &Attempt{client: c, token: hex.EncodeToString(token)}
}

// Claim asks which of the ids may be written. After an *Error with effect unknown some may be held until the lease ends.
func (a *Attempt) Claim(ctx context.Context, ids []string) (claimed Claimed, err error) {
	body := map[string]any{"token": a.token, "call": a.calls, "ids": ids}
	if a.Lease > 0 {
		body["lease_ms"] = a.Lease.Milliseconds()
	}
	a.calls++
	var reply struct {
		Claim    string
		LeaseMs  int64 `json:"lease_ms"`
		Verdicts []struct {
			Verdict       string
			Takeover, Own bool
			OfIndex       *int  `json:"of_index"`
			LeaseLeftMs   int64 `json:"lease_left_ms"`
		}
	}
	if err := a.client.call(ctx, "/ids:claim", body, &reply); err != nil {
		return claimed, err
	}
	claimed.ID, claimed.Lease = reply.Claim, time.Duration(reply.LeaseMs)*time.Millisecond
	for i, told := range reply.Verdicts {
		switch {
		case told.Verdict == "GRANTED":
			claimed.Granted = append(claimed.Granted, ids[i])
			if told.Takeover {
				claimed.Takeovers++
			}
		case told.Own: // DUPLICATE: this attempt wrote it
		case told.Verdict == "DUPLICATE", told.OfIndex != nil:
			claimed.Duplicates++
		default: // BUSY; or SAME as a claim of this attempt that it has not settled
			claimed.Busy = append(claimed.Busy, ids[i])
			if left := time.Duration(told.LeaseLeftMs) * time.Millisecond; left > claimed.Wait {
				claimed.Wait = left
			}
		}
	}
	return claimed, nil
}

// Settle sends "complete" (all of it is written, durably), "release" (none of it is, nor will be) or "renew".
func (c *Client) Settle(ctx context.Context, claim, verb string) (settled Settled, err error) {
	return settled, c.call(ctx, "/claims/"+claim+":"+verb, nil, &settled)
}

// call repeats one request, byte for byte, until it succeeds, is not to be retried, or ctx ends.
func (c *Client) call(ctx context.Context, path string, body, reply any) error {
	var content []byte
	if body != nil {
		content, _ = json.Marshal(body) // strings and numbers: cannot fail
	}
	for try, unknown := 0, false; ; try++ {
		failed := c.once(ctx, path, content, reply)
		if failed == nil {
			return nil
		}
		if unknown = unknown || failed.Effect == "unknown"; unknown {
			failed.Effect = "unknown"
		}
		if failed.Action != "retry" {
			return failed
		}
		if failed.cause = pause(ctx, backoff(try, failed.RetryAfterMs)); failed.cause != nil {
			return failed
		}
	}
}

func (c *Client) once(ctx context.Context, path string, content []byte, reply any) *Error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+path, bytes.NewReader(content))
	if err != nil {
		return &Error{Code: "BAD_URL", Detail: err.Error(), Action: "fix", Effect: "none"}
	}
	if content != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if deadline, ok := ctx.Deadline(); ok {
		request.Header.Set("Oncegate-Timeout-Ms", strconv.FormatInt(time.Until(deadline).Milliseconds()+1, 10))
	}
	if mark, ok := c.Mark.Load().(string); ok && mark != "" {
		request.Header.Set("Oncegate-Ledger", mark)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return unanswered(err)
	}
	defer response.Body.Close()
	if content, err = io.ReadAll(response.Body); err != nil {
		return unanswered(err)
	}
	problem := &Error{}
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(content, reply); err != nil {
			return unanswered(err)
		}
		c.Mark.Store(response.Header.Get("Oncegate-Ledger"))
		return nil
	} else if json.Unmarshal(content, problem) != nil || problem.Action == "" {
		return unanswered(fmt.Errorf("status %d without a problem document", response.StatusCode))
	}
	return problem
}

// unanswered tells a gateway that was never reached from an answer that was lost.
func unanswered(err error) *Error {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return &Error{Code: "UNREACHABLE", Detail: err.Error(), Action: "retry", Effect: "none"}
	}
	return &Error{Code: "NO_ANSWER", Detail: err.Error(), Action: "retry", Effect: "unknown"}
}

// backoff is what the gateway asked for and a random part more, so that callers do not come back together.
func backoff(try int, retryAfterMs int64) time.Duration {
	if try > 6 {
		try = 6
	}
	// Not math/rand: before Go 1.20 it gives every process the same numbers.
	jitter, err := rand.Int(rand.Reader, big.NewInt(int64(50*time.Millisecond)<<try))
	if err != nil {
		panic(err)
	}
	return time.Duration(retryAfterMs)*time.Millisecond + time.Duration(jitter.Int64())
}

// pause returns nil when the time is over, or why ctx ended before.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
