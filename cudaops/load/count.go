package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"aicplan/cudaops/load/aiperf"
)

// serverCounter counts tokens with the server's /tokenize endpoint (vLLM, SGLang) after a phase has ended.
// It is safe for concurrent use.
type serverCounter struct {
	probe *cacheProbe
	model string

	mu    sync.Mutex
	known map[string]int // by text
}

// countersAtOnce is the number of concurrent /tokenize requests.
const countersAtOnce = 8

// newServerCounter sends one test request, so that a server without /tokenize is reported before the load
// starts.
func newServerCounter(ctx context.Context, probe *cacheProbe) (*serverCounter, error) {
	c := &serverCounter{probe: probe, model: probe.r.settings.Model, known: map[string]int{}}
	if _, err := c.tokens(ctx, "hello world"); err != nil {
		return nil, fmt.Errorf(`token_counts = "server": %w; set tokenizer to the folder of a tokenizer.json, or leave token_counts away`, err)
	}
	return c, nil
}

// tokens returns the number of tokens of one text. Results are cached by text.
func (c *serverCounter) tokens(ctx context.Context, text string) (int, error) {
	if text == "" {
		return 0, nil
	}

	c.mu.Lock()
	n, ok := c.known[text]
	c.mu.Unlock()
	if ok {
		return n, nil
	}

	body, err := json.Marshal(map[string]any{"model": c.model, "prompt": text, "add_special_tokens": false})
	if err != nil {
		return 0, err
	}

	status, answer := c.probe.send(ctx, http.MethodPost, "/tokenize", bytes.NewReader(body))
	if status != http.StatusOK {
		return 0, fmt.Errorf("the server does not count tokens at /tokenize (status %d)", status)
	}

	var counted struct {
		Count  *int
		Tokens []json.RawMessage
	}

	if err := json.Unmarshal(answer, &counted); err != nil || counted.Count == nil && counted.Tokens == nil {
		return 0, fmt.Errorf("the server's /tokenize answers %.100q", answer)
	}

	n = len(counted.Tokens)
	if counted.Count != nil {
		n = *counted.Count
	}

	c.mu.Lock()
	c.known[text] = n
	c.mu.Unlock()

	return n, nil
}

// count fills in the token counts of successful requests. If the server cannot count a text, the record
// keeps its counts from the response's usage.
func (c *serverCounter) count(r *runner, list []*aiperf.Record) {
	var wg sync.WaitGroup
	var next atomic.Int64

	for range min(countersAtOnce, len(list)) {
		r.spawn(&wg, func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(list) {
					return
				}
				c.fill(list[i])
			}
		})
	}

	wg.Wait()
}

func (c *serverCounter) fill(rec *aiperf.Record) {
	if rec.Err != nil {
		return
	}

	ctx := context.Background() // each HTTP request has its own timeout
	output, err := c.tokens(ctx, rec.Text)
	if err != nil {
		return
	}

	reasoning, err := c.tokens(ctx, rec.ReasoningText)
	if err != nil {
		return
	}

	rec.Output = output
	if rec.ReasoningText != "" {
		rec.Reasoning = reasoning
	}

	total := 0
	for _, text := range rec.Prompt {
		n, err := c.tokens(ctx, text)
		if err != nil {
			return
		}
		total += n
	}

	if len(rec.Prompt) > 0 {
		rec.Input = total
	}
}
