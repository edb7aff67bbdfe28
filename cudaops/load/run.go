package load

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/workload"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

// Options are the inputs of a run besides its settings.
type Options struct {
	// Salt makes the prompts of one load point differ from those of others, so that no case hits a prefix
	// cache filled by an earlier case.
	Salt uint64

	// Tokenizer counts tokens and generates prompts. If nil, the server's token counts are used.
	Tokenizer workload.Tokenizer

	// Dial overrides how connections are made. If nil, TCP is used.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Record is called for every request in order of completion, from one goroutine. It must not keep its
	// argument.
	Record func(r *aiperf.Record)

	// Stop ends the load early if it is done. The requests that have ended are the result. It may be nil.
	Stop context.Context

	// Progress is called about once a second from a separate goroutine.
	Progress func(Progress)

	// begin, if not nil, is called when a phase is about to start. batch is how many finished requests are
	// recorded together, or 0 for the default.
	begin func() error
	batch int

	// Getenv looks up the environment variable of the API key. If nil, os.Getenv is used.
	Getenv func(string) string
}

// Traffic is the result of a run.
type Traffic struct {
	Settings Settings

	// Profiling and Warmup are the phases. Warmup is nil if there was no warm-up.
	Profiling, Warmup *Phase
	Client            Client

	// CacheReset is true if all servers confirmed that they cleared their caches before the run. Exported are the columns
	// of a row that the servers' metrics have.
	CacheReset bool
	Exported   map[string]float64

	// Server are the metrics that the servers exported, or nil.
	Server *aiperf.ServerMetrics

	// Interrupted is true if the context ended the run.
	Interrupted bool

	// EndedBy is the setting that ended the profiling phase, such as requests, duration or max_errors, or
	// "interrupted".
	EndedBy string

	// Prompts is the source of the prompt lengths: tokenizer, token_ids, words or trace. Conversations is
	// the set that requests were drawn from.
	Prompts string

	// TokenIDs is true if output lengths are counts of token ids sent by the server.
	TokenIDs      bool
	Conversations *workload.Set
}

// Phase is the result of one phase of a run.
type Phase struct {
	aiperf.Phase
	// Batches are the closed batches in order. It is empty for other load patterns.
	Batches []Batch

	// Slices are the summaries of the time slices, if the settings have any.
	Slices []aiperf.Slice

	// Groups are the columns of single URLs and models, by "url" or "model" and name. It is empty if there is one of each.
	Groups map[string]map[string]map[string]float64

	endedBy string
}

// Batch is the time window of one closed batch in ns since the Unix epoch: from before its first request is
// sent until its last request has ended.
type Batch struct{ From, To int64 }

// SetupError is an error of the settings or of a file that they name.
type SetupError struct{ error }

// Unwrap returns the error itself.
func (e *SetupError) Unwrap() error { return e.error }

// Run puts load on the endpoint until the limits of the settings are reached or ctx is done. It returns an
// error if the settings are invalid, the server is unreachable or all warm-up requests fail. Failed
// requests of the profiling phase are part of the result.
func Run(ctx context.Context, s Settings, o Options) (*Traffic, error) {
	r, err := newRunner(s, o)
	if err != nil {
		return nil, &SetupError{err}
	}
	defer r.close()
	return r.run(ctx)
}

// runner is the state of one run.
type runner struct {
	settings  Settings // of this generator
	whole     Settings // of the load
	options   Options
	targets   []*target
	tls       *tls.Config // nil for http
	header    http.Header // of every request
	key       string
	secrets   *textutil.Secrets // the key
	request   openai.Request
	slo       aiperf.SLO
	tokenizer workload.Tokenizer
	prefill   chan int64 // has one element for each free place: when it became free; nil means unlimited
	keepText  bool

	conversations *workload.Set
	once          bool // each conversation is sent once
	order         []int32
	kept          []atomic.Pointer[prepared] // by index of the conversation
	next          int                        // position in order, across both phases
	bodies        sync.Pool                  // of *[]byte

	base     time.Time
	baseUnix int64

	panicked atomic.Pointer[string] // the first panic in a goroutine of the run

	abort   context.CancelFunc // ends the run
	counted atomic.Bool        // token ids sent by the server were counted

	free    chan *aiperf.Record
	records chan []*aiperf.Record

	mu       sync.Mutex       // protects the fields below
	finished []*aiperf.Record // not yet in records
	ended    ended
	slots    []*slot

	generators []*generator // further ones
}

func (r *runner) now() int64 { return r.baseUnix + int64(time.Since(r.base)) }

func newRunner(s Settings, o Options) (*runner, error) {
	if err := s.Settle(); err != nil {
		return nil, err
	}

	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}

	r := &runner{whole: s, settings: s.share(0), options: o, tokenizer: o.Tokenizer}
	s = r.settings
	r.options.batch = cmp.Or(o.batch, batchSize)

	for _, text := range s.targetURLs() {
		t, err := newTarget(&s, text)
		if err != nil {
			return nil, err
		}

		r.targets = append(r.targets, t)
		if t.proxy = proxyOf(text); o.Dial != nil {
			t.proxy = nil
		}
		if t.proxy != nil {
			if t.proxyAddress, err = Address(t.proxy); err != nil {
				return nil, fmt.Errorf("the proxy of %s: %w", text, err)
			}
		}
		if (t.url.Scheme == "https" || t.proxy != nil && t.proxy.Scheme == "https") && r.tls == nil {
			r.tls = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
		}
	}

	own, err := s.TLS()
	switch {
	case err != nil:
		return nil, err
	case own != nil && r.tls == nil:
		return nil, fmt.Errorf("ca_file is set, and %s is no https URL", s.URL)
	case own != nil:
		r.tls.RootCAs = own.RootCAs
	}

	if r.key, err = s.key(o.Getenv); err != nil {
		return nil, err
	}

	if r.slo, err = aiperf.ParseSLO(s.SLO); err != nil {
		return nil, err
	}

	r.request = openai.Request{Endpoint: s.EndpointType, Model: s.Model, Stream: s.Streaming,
		Extra: s.ExtraInputs}
	if n := s.PrefillConcurrency; n > 0 {
		r.prefill = make(chan int64, n)
		for range n {
			r.prefill <- 0
		}
	}

	r.keepText = o.Tokenizer != nil
	if err := r.makePrompts(); err != nil {
		return nil, err
	}

	r.header = header(s, r.key)
	for _, t := range r.targets {
		t.head = r.requestHead(t)
	}
	r.secrets = textutil.NewSecrets(r.key)
	r.base = time.Now()
	r.baseUnix = r.base.UnixNano()

	return r, nil
}

// header returns the headers that all requests have in common.
func header(s Settings, key string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "aicplan")
	h.Set("Accept", "application/json")
	if s.Streaming {
		h.Set("Accept", "text/event-stream")
	}

	s.setKey(h, key)
	for name, value := range s.Headers {
		h.Set(name, value)
	}

	return h
}

// InputFiles returns the files that the prompts of a load come from: the trace or the dataset, and the images that it
// names. It returns an error if one of them cannot be read or has no prompts. Both paths may be empty.
func InputFiles(trace, dataset string) ([]string, error) {
	s := DefaultSettings()
	if s.Trace, s.Dataset = trace, dataset; trace+dataset == "" {
		return nil, nil
	}

	files := []string{trace + dataset}
	_, err := s.readInput(workload.Config{Opened: func(path string) { files = append(files, path) }})
	return files, err
}

// readInput returns the conversations of the trace or the dataset.
func (s *Settings) readInput(c workload.Config) ([]workload.Conversation, error) {
	path, read, what := s.Trace, workload.Trace, "trace"
	if s.Dataset != "" {
		path, read, what = s.Dataset, workload.Dataset, "dataset"
	}

	f, err := fileutil.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	return read(f, path, c)
}

func (r *runner) makePrompts() error {
	s := &r.settings
	c := s.synthetic(r.tokenizer, r.options.Salt)

	if s.Trace+s.Dataset != "" {
		list, err := s.readInput(c)
		if err != nil {
			return err
		}

		if list[0].At < 0 && s.Concurrency == 0 && s.RequestRate == 0 {
			s.Concurrency = 1
		}

		turns := 0
		for i := range list {
			c := &list[i]
			c.At = s.hastened(c.At)
			turns += len(c.Turns)
			for j := range c.Turns {
				c.Turns[j].Delay = s.hastened(c.Turns[j].Delay)
			}
		}

		if s.Requests == 0 {
			s.Requests = turns
			r.once = s.Sessions == 0 && s.Users == 0
		}

		if s.Batch > 0 && turns > len(list) {
			return fmt.Errorf("batch is %d, and conversations of %s have several turns, which are not sent at once; remove "+
				"batch", s.Batch, filepath.Base(s.Dataset))
		}
		if r.once && s.Batch > 0 && s.Requests%s.Batch != 0 {
			return fmt.Errorf("batch is %d, and %s has %d prompts; give the load requests, a multiple of batch", s.Batch,
				filepath.Base(s.Dataset), s.Requests)
		}

		if s.Trace != "" && s.RequestRate == 0 && list[0].At >= 0 && s.Sampling != SamplingSequential {
			return fmt.Errorf("sampling is %q, and the requests of %s have times; remove sampling, or give the load a "+
				"request_rate", s.Sampling, filepath.Base(s.Trace))
		}

		if r.once && s.Dataset != "" && s.RequestRate == 0 && s.Concurrency > len(list) {
			return fmt.Errorf("concurrency is %d, and only the %d conversations of %s can be open; give the load requests, so "+
				"that they are sent again, or lower concurrency", s.Concurrency, len(list), filepath.Base(s.Dataset))
		}

		r.keepText = r.keepText || turns > len(list)
		r.conversations = workload.Fixed(list)
	} else {
		r.conversations = workload.Make(c)
		r.keepText = r.keepText || s.Turns > 1 || s.TurnsStdDev > 0
	}

	r.order = make([]int32, r.conversations.Len())
	for i := range r.order {
		r.order[i] = int32(i)
	}

	if s.Sampling == SamplingShuffle {
		rng := rand.New(rand.NewPCG(s.Seed^r.options.Salt, 0x6f72646572))
		rng.Shuffle(len(r.order), func(i, j int) { r.order[i], r.order[j] = r.order[j], r.order[i] })
	}

	r.kept = make([]atomic.Pointer[prepared], len(r.order))
	return nil
}

// hastened divides a time of a trace by the trace speed. It returns a negative time, which is unknown, as it is.
func (s *Settings) hastened(d time.Duration) time.Duration {
	if d < 0 {
		return d
	}
	return time.Duration(float64(d) / s.TraceSpeed)
}

// promptSource returns the source of the prompt lengths for Traffic.Prompts.
func (r *runner) promptSource() string {
	switch {
	case r.settings.Trace != "":
		return "trace"
	case r.settings.Dataset != "":
		return "dataset"
	case r.settings.Prompt == PromptIDs:
		return "token_ids"
	case r.tokenizer != nil:
		return "tokenizer"
	}
	return "words"
}

func (r *runner) run(ctx context.Context) (*Traffic, error) {
	out := &Traffic{Settings: r.whole, Prompts: r.promptSource(), Conversations: r.conversations, CacheReset: true}
	for _, t := range r.targets {
		done, err := newCacheProbe(r, t).reset(ctx)
		if err != nil {
			return nil, err
		}
		out.CacheReset = out.CacheReset && done
	}

	outer := ctx
	ctx, r.abort = context.WithCancel(outer)
	defer r.abort()
	n := r.width()
	defer func() {
		for _, s := range r.slots {
			s.link.close()
		}
	}()

	for range n {
		r.newSlot()
	}

	defer func() {
		for _, g := range r.generators {
			g.end()
		}
	}()
	if err := r.startGenerators(); err != nil {
		return nil, err
	}

	// Open connections before the clock starts. If the server is unreachable, the run fails here.
	if err := r.connect(ctx, n); err != nil {
		return nil, err
	}

	if w := r.settings.WarmupRequests; w > 0 {
		p, err := r.phase(ctx, true, nil)
		if err != nil {
			return nil, err
		}
		out.Warmup = p
		if p.Summary.Succeeded == 0 && ctx.Err() == nil {
			e := p.Summary.Errors[0]
			return nil, fmt.Errorf("all %d warm-up requests failed; the first kind: %s", p.Summary.Requests,
				describe(e.Failure))
		}
	}

	pages := r.watchServers(ctx)
	p, err := r.phase(ctx, false, &out.Client)
	if err != nil {
		return nil, err
	}

	pages.stop(ctx)
	out.Exported = pages.columns()
	if r.settings.ServerMetrics > 0 {
		out.Server = pages.summary(r.now())
	}

	out.Profiling, out.EndedBy = p, p.endedBy
	out.Interrupted, out.TokenIDs = ctx.Err() != nil, r.counted.Load()

	return out, nil
}

// describe formats a failure in one line.
func describe(f aiperf.Failure) string {
	if f.Code > 0 {
		return fmt.Sprintf("%d %s: %s", f.Code, f.Type, f.Message)
	}
	return f.Type + ": " + f.Message
}

// width returns the initial number of slots.
func (r *runner) width() int {
	n := cmp.Or(r.settings.Concurrency, 1)
	if m := max(r.settings.Requests, r.settings.WarmupRequests); m > 0 && r.settings.Duration == 0 {
		n = min(n, m)
	}
	return n
}

// newSlot adds a slot.
func (r *runner) newSlot() *slot {
	s := &slot{r: r, link: link{now: r.now}}
	s.link.in = bufio.NewReaderSize(&s.link, 8<<10)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots = append(r.slots, s)
	return s
}

// spawn is wg.Go that turns a panic into the end of the run. The process continues, because it may be doing
// other work.
func (r *runner) spawn(wg *sync.WaitGroup, f func()) {
	wg.Go(func() {
		defer r.caught()
		f()
	})
}

// caught recovers from a panic, records it and ends the run. Goroutines of the run defer it.
func (r *runner) caught() {
	if v := recover(); v != nil {
		text := fmt.Sprintf("%v\n\n%s", v, debug.Stack())
		r.panicked.CompareAndSwap(nil, &text)
		r.abort()
	}
}

// connect opens n connections, at most 64 at a time.
func (r *runner) connect(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, min(seconds(r.settings.Timeout), time.Minute))
	defer cancel()
	var g errgroup.Group
	g.SetLimit(64)
	for _, t := range r.targets {
		t.ready = make(chan net.Conn, n)
		open := func() error {
			c, err := r.dial(ctx, t)
			if err == nil {
				t.ready <- c
			}
			return err
		}

		if err := open(); err != nil {
			return fmt.Errorf("%w %s: %s; is it running, and is url right?", errUnreachable, t.name, plainNet(err))
		}

		for range (n+len(r.targets)-1)/len(r.targets) - 1 {
			g.Go(open)
		}
	}

	if err := g.Wait(); err != nil {
		return fmt.Errorf("cannot open %d connections to the server: %s", n, plainNet(err))
	}

	return nil
}

// close closes all connections.
func (r *runner) close() {
	for _, t := range r.targets {
		for len(t.ready) > 0 {
			_ = (<-t.ready).Close() // an unused connection, so its error does not matter
		}
	}
}

// errUnreachable is returned if a server does not accept the first connection.
var errUnreachable = errors.New("cannot reach the server")

// errStopped is returned if a phase ends without any request.
var errStopped = errors.New("the run ended")
