package load

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/tokenizer"
	"aicplan/cudaops/load/workload"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/textutil"
)

// Framework is the default framework label of rows.
const Framework = "OPENAI"

// OpLoad is the op of plans whose grid does not set an endpoint type.
const OpLoad = "load"

// Ops returns the ops of endpoint runtimes: the endpoint types and OpLoad.
func Ops() []string { return append(openai.Endpoints(), OpLoad) }

// Host is the worker host of an endpoint runtime. A case is a load point, its row contains the results, and
// AIPerf's files are its attachments. A Host is not safe for concurrent use.
type Host struct {
	// Watch, if not nil, is called with the progress of a load about once a second.
	Watch func(Progress)

	init     worker.Init
	patience time.Duration

	// deaf ignores signals, and dial replaces TCP, for tests on a virtual clock.
	deaf bool
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	beside Options  // Stop and Progress of the running case
	logs   []string // request logs of the running case

	// tokenizers are the loaded tokenizers by path.
	tokenizers map[string]workload.Tokenizer
}

// New returns a host.
func NewHost(init worker.Init) *Host {
	return &Host{init: init, patience: patience, tokenizers: map[string]workload.Tokenizer{}}
}

// Configure implements worker.Host.
func (h *Host) Configure(init worker.Init) error {
	h.init = init
	return nil
}

// Hello implements worker.Host. It checks the options. The server may not be running yet; its version is
// then "unknown".
func (h *Host) Hello(ctx context.Context) (worker.Hello, error) {
	for _, name := range slices.Sorted(maps.Keys(h.init.Options)) {
		if option(name) == nil && name != planDir {
			return worker.Hello{}, worker.Failed(worker.ClassCollectorBug, "a runtime of kind endpoint has no option %q",
				name)
		}
	}

	s, err := h.settings(worker.Case{Op: OpLoad, Params: json.RawMessage("{}")})
	if err != nil {
		return worker.Hello{}, worker.Failed(worker.ClassCollectorBug, "%v", err)
	}

	hello := worker.Hello{
		Framework: Framework, Version: "unknown", Device: "endpoint", Window: 1, Ops: Ops(), Configure: true,
		Env: map[string]string{"model": s.Model},
	}

	u, err := parseURL(s.targetURLs()[0])
	if err != nil {
		return worker.Hello{}, worker.Failed(worker.ClassCollectorBug, "%v", err)
	}

	hello.Device = u.Host

	// TLS errors are reported when the load starts.
	t, _ := s.TLS()
	if v := version(ctx, u, t); v != "" {
		hello.Version = v
	}

	return hello, nil
}

// Version returns the version that the server at a base URL reports (vLLM and SGLang do), or "" if it does
// not.
func Version(ctx context.Context, base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return version(ctx, u, nil)
}

// version returns the version that the server reports (vLLM and SGLang do), or "" if it does not.
func version(ctx context.Context, server *url.URL, t *tls.Config) string {
	p := probeOf(server, &http.Transport{TLSClientConfig: t})
	for _, path := range p.paths("/version") {
		status, body := p.do(ctx, http.MethodGet, path)
		var v struct{ Version string }
		if status == http.StatusOK && json.Unmarshal(body, &v) == nil && v.Version != "" && len(v.Version) <= 100 {
			return v.Version
		}
	}
	return ""
}

// Serve implements worker.Host. It runs one load point at a time.
func (h *Host) Serve(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	s := worker.Sequential{Run: func(ctx context.Context, c worker.Case) ([]worker.Row, error) {
		row, _, err := h.Load(ctx, c, out)
		return []worker.Row{row}, err
	}}
	return s.Serve(ctx, in, out)
}

// planDir is the runtime option with the base of relative paths. The engine sets it.
const planDir = "plan_dir"

// block returns the values of a block of the collect, or nil.
func (h *Host) block(name string) (map[string]any, error) {
	if len(h.init.Blocks) == 0 {
		return nil, nil
	}

	var blocks map[string]map[string]any
	if err := textutil.DecodeJSON(h.init.Blocks, &blocks); err != nil {
		return nil, fmt.Errorf("the collect's blocks: %w", err)
	}
	return blocks[name], nil
}

// Check returns an error if the load of a case is invalid. It reads no file.
func (h *Host) Check(c worker.Case) error {
	find, err := h.search()
	if err != nil {
		return err
	}

	s, err := h.settings(c)
	if err != nil {
		return err
	}
	if find != nil {
		if find, err = find.within(&s); err != nil {
			return err
		}
		s = find.at(s, find.Min)
	}
	return s.Settle()
}

// search returns the search of the collect, or nil.
func (h *Host) search() (*Search, error) {
	values, err := h.block("search")
	if err != nil || values == nil {
		return nil, err
	}

	var s Search
	if err := worker.Decode(s.Options(), values); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return &s, s.check()
}

// settings merges the settings of a case: the runtime's options, the collect's load block and the case's columns, where
// later ones override earlier ones. They are not settled.
func (h *Host) settings(c worker.Case) (Settings, error) {
	s := DefaultSettings()
	s.given = map[string]bool{}
	if slices.Contains(openai.Endpoints(), c.Op) {
		s.EndpointType = openai.Endpoint(c.Op)
	}

	options := maps.Clone(h.init.Options)
	delete(options, planDir)
	if err := set(&s, options, ofRuntime); err != nil {
		return s, err
	}

	values, err := h.block("load")
	if err != nil {
		return s, err
	}
	if err := set(&s, values, "the load block"); err != nil {
		return s, err
	}

	params := map[string]any{}
	if err := textutil.DecodeJSON(c.Params, &params); err != nil {
		return s, fmt.Errorf("the case's parameters: %w", err)
	}

	for _, label := range s.Labels {
		delete(params, label)
	}

	for _, name := range []string{"trace", "dataset", "tokenizer"} {
		if params[name] != nil {
			return s, fmt.Errorf(
				"%s is a column of the grid; set it in the plan's blocks, so that the content of the file is part of the case",
				name,
			)
		}
	}

	for name, v := range params {
		if v == nil {
			delete(params, name) // null means not set
		}
	}

	if err := set(&s, params, "the case"); err != nil {
		return s, err
	}

	for _, path := range []*string{&s.Tokenizer, &s.Trace, &s.Dataset, &s.APIKeyFile, &s.CAFile} {
		if *path != "" && !filepath.IsAbs(*path) {
			if dir, _ := h.init.Options[planDir].(string); dir != "" {
				*path = filepath.Join(dir, *path)
			}
		}
	}

	return s, nil
}

// ofRuntime names the source of a runtime's options in errors.
const ofRuntime = "the runtime"

// set overrides settings by the values of a source. Errors name the source.
func set(s *Settings, values map[string]any, who string) error {
	values = maps.Clone(values)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if o := option(name); o == nil || (o.Secret || name == labels) && who != ofRuntime {
			return fmt.Errorf(
				"%s has %q, which is no setting of load.%s A column that only names a case belongs into the runtime's labels",
				who,
				name,
				cmp.Or(textutil.DidYouMean(name, Names()), " Settings are "+strings.Join(Names(), ", ")+"."),
			)
		}
		if v, ok := values[name].(string); ok && name == "extra_inputs" {
			extra, err := openai.ParseExtra(v)
			if err != nil {
				return err
			}
			values[name] = extra
		}
	}

	if err := s.Set(values); err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}

	for name := range values {
		s.given[name] = true
	}
	return nil
}

func (h *Host) tokenizer(path string) (workload.Tokenizer, error) {
	if path == "" {
		return nil, nil
	}

	if t, ok := h.tokenizers[path]; ok {
		return t, nil
	}

	t, err := tokenizer.Load(path)
	if err != nil {
		return nil, err
	}

	h.tokenizers[path] = t
	return t, nil
}

// getenv looks up an environment variable. The runtime's environment has precedence, because an in-process
// host has the engine's environment.
func (h *Host) getenv(name string) string {
	if v, ok := h.init.Env[name]; ok {
		return v
	}
	return os.Getenv(name)
}

// salt derives the seed offset of a case from its id, so that cases have different prompts.
func salt(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.LittleEndian.Uint64(sum[:])
}

// failure adds a class to an error without one.
func failure(class string, err error) error {
	if fe, ok := errors.AsType[*worker.Failure](err); ok {
		return fe
	}
	return worker.Failed(class, "%v", err)
}
