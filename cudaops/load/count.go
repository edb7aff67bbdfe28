package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"aicplan/cudaops/load/metrics"
)

// serverCounter counts tokens by the server's own /tokenize, as vLLM and SGLang
// have it, when a phase is over.
type serverCounter struct {
	probe *cacheProbe
	model string

	mu    sync.Mutex
	known map[string]int // by text
}

// countersAtOnce is how many texts are counted at a time.
const countersAtOnce = 8

// newServerCounter asks once, so that a server without /tokenize is seen before
// the load.
func newServerCounter(ctx context.Context, probe *cacheProbe) (*serverCounter, error) {
	c := &serverCounter{probe: probe, model: probe.r.settings.Model, known: map[string]int{}}
	if _, err := c.tokens(ctx, "hello world"); err != nil {
		return nil, fmt.Errorf(`token_counts = "server": %w; set tokenizer to the folder of a tokenizer.json, or leave token_counts away`, err)
	}
	return c, nil
}

// tokens counts one text.
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

// count fills in the tokens of successful requests. What the server does not
// count stays unknown, and is taken from its usage.
func (c *serverCounter) count(r *runner, list []*metrics.Record) {
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

func (c *serverCounter) fill(rec *metrics.Record) {
	if rec.Err != nil {
		return
	}
	ctx := context.Background() // every question has its own limit
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
