// Command oncelines appends each line of its standard input to a file, once: also when it is started again after it
// was killed, when answers are lost or when others write the same lines at the same time.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"oncegate.example/oncegate"
)

var exits = map[string]int{"fix": 2, "stop": 3, "retry": 4}

func main() {
	gateway := flag.String("url", "http://127.0.0.1:8080", "the gateway")
	namespace := flag.String("namespace", "default", "the domain of deduplication")
	out := flag.String("out", "", "the file that lines are appended to")
	markFile := flag.String("mark", "", "a file that keeps the newest ledger mark between runs")
	chunk := flag.Int("chunk", 100, "lines a request")
	lease := flag.Duration("lease", 0, "how long granted lines are kept for this process; 0: as the gateway likes")
	try := flag.Duration("try", 10*time.Second, "an answer that takes longer counts as lost")
	timeout := flag.Duration("timeout", time.Minute, "for all of it")
	flag.Parse()

	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	client := &oncegate.Client{URL: *gateway + "/v1/namespaces/" + *namespace, HTTP: http.Client{Timeout: *try}}
	if mark, err := os.ReadFile(*markFile); err == nil {
		client.Mark.Store(string(mark))
	}
	attempt := client.Attempt()
	attempt.Lease = *lease
	err := appendAll(ctx, attempt, *chunk, *out)
	if mark, ok := client.Mark.Load().(string); ok && *markFile != "" {
		if unkept := os.WriteFile(*markFile, []byte(mark), 0o600); err == nil {
			err = unkept
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status(err))
}

// status: 0 all is written, 1 the file failed, 2 fix the request, 3 stop, 4 try again, 5 try again, effect unknown.
func status(err error) int {
	var failed *oncegate.Error
	if err == nil {
		return 0
	}
	if !errors.As(err, &failed) {
		return 1
	}
	if failed.Action == "retry" && failed.Effect == "unknown" {
		return 5
	}
	return exits[failed.Action]
}

// appendAll says after each request, as a line of JSON, what became of its lines.
func appendAll(ctx context.Context, attempt *oncegate.Attempt, chunk int, out string) error {
	sink := func(_ context.Context, lines []string) error { return appendLines(out, lines) }
	lines, input := []string{}, bufio.NewScanner(os.Stdin)
	for more := true; more; {
		if more = input.Scan(); more {
			lines = append(lines, input.Text())
		}
		if len(lines) == chunk || !more && len(lines) > 0 {
			counts, err := attempt.Write(ctx, lines, sink)
			if err != nil {
				return err
			}
			if err := json.NewEncoder(os.Stdout).Encode(counts); err != nil {
				return err
			}
			lines = lines[:0]
		}
	}
	return input.Err()
}

func appendLines(out string, lines []string) error {
	file, err := os.OpenFile(out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %v", oncegate.ErrNothingWritten, err)
	}
	defer file.Close()
	if _, err := file.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		return err
	}
	return file.Sync()
}
