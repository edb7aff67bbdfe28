package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/proc"
)

// share is what a further generator is sent: its part of a load.
type share struct {
	Settings Settings
	Salt     uint64
	Delay    time.Duration // between the common start and its own, so that constant arrivals alternate
}

// report is what a generator sends: an empty one when it is ready, its clock at the start, each request, and last the
// resources that it used or its failure.
type report struct {
	Clock    int64 // ns since the Unix epoch
	Record   *aiperf.Record
	Client   *Client
	TokenIDs bool
	Failure  string
}

// Generator is a generator of a load that another process has started. It reads its share of the load from in, sends
// the requests after the common start, and writes what it reports to out. It ends early if in ends.
func Generator(ctx context.Context, in io.Reader, out io.Writer) error {
	messages, reports := gob.NewDecoder(in), gob.NewEncoder(out)
	var s share
	if err := messages.Decode(&s); err != nil {
		return fmt.Errorf("aicplan starts this command for a load, and its share was not received: %w", err)
	}

	var lost error // of the process that started this one
	send := func(r report) { lost = cmp.Or(lost, reports.Encode(r)) }
	stop, end := context.WithCancel(ctx)
	defer end()
	o := Options{Salt: s.Salt, Stop: stop, batch: 1}
	o.Record = func(r *aiperf.Record) {
		r.Text, r.ReasoningText = "", "" // they are counted
		send(report{Record: r})
	}

	o.begin = func() error {
		var begin bool
		send(report{})
		if err := cmp.Or(lost, messages.Decode(&begin)); err != nil {
			return err
		}

		send(report{Clock: time.Now().UnixNano()})
		go func() {
			defer end()
			_ = messages.Decode(&begin) // no message follows; it returns when in ends
		}()

		select {
		case <-time.After(s.Delay):
		case <-stop.Done():
		}
		return nil
	}

	last := report{Client: &Client{}}
	var err error
	if o.Tokenizer, err = NewHost(worker.Init{}).tokenizer(s.Settings.Tokenizer); err == nil {
		var t *Traffic
		if t, err = Run(ctx, s.Settings, o); err == nil {
			last.Client, last.TokenIDs = &t.Client, t.TokenIDs
		}
	}
	if err != nil && !errors.Is(err, errStopped) {
		last.Failure = err.Error()
	}
	send(last)
	return lost
}

// share returns the settings of generator i of a load. Generator 0 is the process that has the case.
func (s *Settings) share(i int) Settings {
	n := len(s.Generators) + 1
	out := *s
	out.Generators = nil
	for _, v := range out.divided() {
		*v = *v*(i+1)/n - *v*i/n
	}

	out.RequestRate /= float64(n)
	if i > 0 {
		out.WarmupRequests, out.ServerMetrics, out.CacheReset = 0, 0, ResetNever
		out.MaxErrors, out.MaxErrorRate, out.MaxConsecutiveErrors = 0, 0, 0 // generator 0 counts all errors
	}
	return out
}

// divided returns the numbers that generators share, by name.
func (s *Settings) divided() map[string]*int {
	return map[string]*int{"concurrency": &s.Concurrency, "prefill_concurrency": &s.PrefillConcurrency,
		"requests": &s.Requests, "sessions": &s.Sessions, "entries": &s.Entries}
}

// checkGenerators returns an error if generators cannot share the load.
func (s *Settings) checkGenerators() error {
	n := len(s.Generators) + 1
	if n > 1 && (s.Trace+s.Dataset != "" || s.Users > 0 || s.Batch > 0 || s.OverSaturation > 0) {
		return errors.New("generators share synthetic requests; remove trace, dataset, users, batch and over_saturation")
	}

	for name, v := range s.divided() {
		if *v > 0 && *v < n {
			return fmt.Errorf("%s is %d, and each of %d generators needs at least 1", name, *v, n)
		}
	}
	return nil
}

// A generator is a process that sends a share of the load.
type generator struct {
	name   string
	tree   *proc.Tree
	in     io.WriteCloser
	out    *os.File
	stderr bytes.Buffer

	messages *gob.Encoder
	reports  *gob.Decoder
	used     Client // its resources
	err      error
}

// startGenerators starts the further generators of a load and waits until they are ready.
func (r *runner) startGenerators() error {
	for i, command := range r.whole.Generators {
		g := &generator{name: command}
		if err := g.start(); err != nil {
			return fmt.Errorf("generator %q: %w", command, err)
		}
		r.generators = append(r.generators, g)

		s := share{Settings: r.whole.share(i + 1), Salt: r.options.Salt + uint64(i+1)*0xC2B2AE3D27D4EB4F}
		if r.whole.RequestRate > 0 {
			s.Delay = seconds(float64(i+1) / r.whole.RequestRate)
		}
		s.Settings.APIKey, s.Settings.APIKeyEnv, s.Settings.APIKeyFile = secret(r.key), "", ""
		if err := g.messages.Encode(s); err != nil {
			return g.failure(err)
		}
	}

	for _, g := range r.generators {
		if _, err := g.next(); err != nil {
			return err
		}
	}
	return nil
}

// start starts the process.
func (g *generator) start() error {
	words := append(strings.Fields(g.name), "generator")
	cmd := exec.Command(words[0], words[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}

	// Unlike that of StdoutPipe, the end of the process does not close it before it is read.
	out, written, err := os.Pipe()
	if err != nil {
		return err
	}
	defer written.Close()
	cmd.Stdout, cmd.Stderr = written, &g.stderr
	if g.tree, err = proc.Start(cmd); err != nil {
		_ = out.Close() // nothing was read
		return err
	}

	g.in, g.out, g.messages, g.reports = in, out, gob.NewEncoder(in), gob.NewDecoder(out)
	return nil
}

// next returns the next report.
func (g *generator) next() (r report, err error) {
	if err := g.reports.Decode(&r); err != nil {
		return r, g.failure(err)
	}
	if r.Failure != "" {
		return r, fmt.Errorf("generator %q: %s", g.name, r.Failure)
	}
	return r, nil
}

// failure ends the process and returns the error of a generator that sends or receives nothing more. A process that
// ends by itself closes its pipes a moment before.
func (g *generator) failure(err error) error {
	select {
	case <-g.tree.Done():
	case <-time.After(proc.Grace):
	}
	g.end()
	text := strings.TrimSpace(g.stderr.String())
	return fmt.Errorf("generator %q ended with %s before its share of the load was done (%w): %s", g.name, g.tree.Exit(),
		err, cmp.Or(text, "it printed nothing"))
}

// end kills the process if it has not ended.
func (g *generator) end() {
	g.tree.Kill()
	<-g.tree.Done()
	_, _ = g.in.Close(), g.out.Close() // nothing more is sent or read
}

// beginGenerators starts the load of the generators. The returned function waits for their end.
func (p *phase) beginGenerators() (wait func() error) {
	r := p.r
	stop := context.AfterFunc(p.cut, func() {
		if by := p.endedBy.Load(); by != nil && *by == "duration" {
			return // they have the same duration
		}
		for _, g := range r.generators {
			_ = g.in.Close() // it ends when its input does
		}
	})

	var wg sync.WaitGroup
	for i, g := range r.generators {
		begun := r.now()
		err := g.messages.Encode(true)
		r.spawn(&wg, func() {
			if g.err = err; err == nil {
				g.err = p.follow(g, i+1, begun)
			}
			if g.err != nil {
				r.abort()
			}
		})
	}

	return func() error {
		wg.Wait()
		stop()
		for _, g := range r.generators {
			if g.err != nil {
				return g.err
			}
		}
		return nil
	}
}

// follow adds the requests of generator i until its last report. begun is when it was started.
func (p *phase) follow(g *generator, i int, begun int64) error {
	r, err := g.next()
	ahead := r.Clock - (begun+p.r.now())/2
	for ; err == nil; r, err = g.next() {
		if r.Client != nil {
			g.used = *r.Client
			if r.TokenIDs {
				p.r.counted.Store(true)
			}
			return nil
		}

		if rec := r.Record; rec != nil {
			for _, at := range []*int64{&rec.Credit, &rec.Free, &rec.Start, &rec.Sent, &rec.Ack, &rec.Last, &rec.Finish,
				&rec.Ended} {
				*at -= min(ahead, *at) // 0 means that the event did not happen
			}
			for k := range rec.Times {
				rec.Times[k] -= ahead
			}
			rec.Number = rec.Number*(len(p.r.generators)+1) + i
			rec.Conversation = fmt.Sprintf("generator_%d_%s", i, rec.Conversation)
			p.finish(rec)
		}
	}
	return err
}
