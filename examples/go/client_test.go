package oncegate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"oncegate.example/oncegate"
)

// client is a client of the gateway that ONCEGATE_URL names, as …/v1/namespaces/<namespace>.
func client(t *testing.T) *oncegate.Client {
	t.Helper()
	if os.Getenv("ONCEGATE_URL") == "" {
		t.Skip("ONCEGATE_URL names no gateway")
	}
	return &oncegate.Client{URL: os.Getenv("ONCEGATE_URL")}
}

func TestALeaseIsRenewedWhileASlowSinkWrites(t *testing.T) {
	slow, other := client(t).Attempt(), client(t).Attempt()
	slow.Lease = time.Second
	counts, err := slow.Write(context.Background(), []string{"slow"}, func(ctx context.Context, ids []string) error {
		for renewed, before := 0, time.Second; renewed < 4; {
			told, err := other.Claim(ctx, ids)
			if err != nil || len(told.Busy) != 1 {
				return fmt.Errorf("not BUSY: %v %v", told, err)
			}
			if told.Wait > before {
				renewed++
			}
			before = told.Wait
		}
		return nil
	})
	if err != nil || counts != (oncegate.Counts{Written: 1}) {
		t.Fatal(counts, err)
	}
}

func TestWhatASinkDidNotBeginIsFreeForOthersAtOnce(t *testing.T) {
	ctx, ids := context.Background(), []string{"unbegun"}
	_, err := client(t).Attempt().Write(ctx, ids, func(context.Context, []string) error {
		return fmt.Errorf("no disk: %w", oncegate.ErrNothingWritten)
	})
	if !errors.Is(err, oncegate.ErrNothingWritten) {
		t.Fatal(err)
	}
	if told, err := client(t).Attempt().Claim(ctx, ids); err != nil || len(told.Granted) != 1 {
		t.Fatal(told, err)
	}
}

func TestWhatASinkMayHaveWrittenIsHeld(t *testing.T) {
	ctx, ids, broken := context.Background(), []string{"half"}, errors.New("broken in the middle")
	_, err := client(t).Attempt().Write(ctx, ids, func(context.Context, []string) error { return broken })
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if told, err := client(t).Attempt().Claim(ctx, ids); err != nil || len(told.Busy) != 1 {
		t.Fatal(told, err)
	}
}

func TestADeadlineEndsTheWaitForWhatAnotherHolds(t *testing.T) {
	ids := []string{"held"}
	if told, err := client(t).Attempt().Claim(context.Background(), ids); err != nil || len(told.Granted) != 1 {
		t.Fatal(told, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := client(t).Attempt().Write(ctx, ids, func(context.Context, []string) error { return nil })
	var failed *oncegate.Error
	if !errors.As(err, &failed) || failed.Action != "retry" || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}
