// Package load puts load on an OpenAI-compatible endpoint and measures what its
// users would see: arrivals, prompts, an HTTP client that stamps every read,
// metrics with AIPerf's definitions, and proof that the client itself was not
// what was measured.
package load

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/load/arrivals"
	"aicplan/cudaops/load/metrics"
	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/prompts"
)

// Settings are everything that decides what one load point asks of a server.
// The JSON names are those of a plan.
type Settings struct {
	// URL is the server's, with or without a scheme; a path in it comes before
	// the endpoint's.
	URL          string `json:"url"`
	Model        string `json:"model"`
	EndpointType string `json:"endpoint_type"`
	// Path replaces the endpoint's usual path.
	Path      string            `json:"endpoint"`
	Streaming bool              `json:"streaming"`
	Headers   map[string]string `json:"headers"`
	// APIKeyEnv and APIKeyFile name where the key is; the key itself is in no
	// plan and no result.
	APIKeyEnv  string `json:"api_key_env"`
	APIKeyFile string `json:"api_key_file"`
	// CAFile has the certificates of a private authority, in PEM, which are trusted
	// beside the system's.
	CAFile string `json:"ca_file"`
	// APIKey is the key itself; it is never written.
	APIKey string `json:"-"`
	// ExtraInputs are merged into every body.
	ExtraInputs map[string]json.RawMessage `json:"extra_inputs"`
	// Timeout bounds one request, in seconds.
	Timeout float64 `json:"request_timeout"`
	// RequireDone makes a stream without [DONE] a failure.
	RequireDone bool `json:"require_done"`

	// Concurrency is how many requests are open at once; with a rate it is the
	// cap, 0 for none.
	Concurrency int `json:"concurrency"`
	// PrefillConcurrency is how many requests may wait for their first token at
	// once, 0 for no limit.
	PrefillConcurrency int `json:"prefill_concurrency"`
	// RequestRate is in requests per second; 0 sends as soon as Concurrency lets.
	RequestRate float64 `json:"request_rate"`
	Arrival     string  `json:"arrival"`
	Smoothness  float64 `json:"arrival_smoothness"`
	// Users share RequestRate: each sends the turns of its conversations
	// Users/RequestRate seconds apart, however long answers take; 0 is for
	// arrivals without users.
	Users int `json:"users"`
	// Ramps are seconds in which concurrency or rate grow to their value.
	ConcurrencyRamp float64 `json:"concurrency_ramp"`
	RateRamp        float64 `json:"request_rate_ramp"`

	// Requests, Duration (seconds) and Sessions end the load, whichever comes
	// first; 0 is no limit. Grace is how long open requests may take after
	// Duration, in seconds.
	Requests int     `json:"requests"`
	Duration float64 `json:"duration"`
	Grace    float64 `json:"grace"`
	Sessions int     `json:"sessions"`
	// Batch sends requests in closed batches of so many: all of one at once, and the
	// next when the last of them has ended. 0 sends the next when one ended.
	Batch int `json:"batch"`
	// WarmupRequests come first and are in no result.
	WarmupRequests int `json:"warmup_requests"`

	ISL       float64 `json:"isl"`
	ISLStdDev float64 `json:"isl_stddev"`
	OSL       float64 `json:"osl"`
	OSLStdDev float64 `json:"osl_stddev"`
	// Entries is how many different conversations there are; 0 makes one for
	// every request, so that none finds its prompt in a prefix cache.
	Entries         int     `json:"entries"`
	Sampling        string  `json:"sampling"`
	PrefixLength    int     `json:"prefix_length"`
	PrefixPool      int     `json:"prefix_pool"`
	Turns           float64 `json:"turns"`
	TurnsStdDev     float64 `json:"turns_stddev"`
	TurnDelay       float64 `json:"turn_delay"`
	TurnDelayStdDev float64 `json:"turn_delay_stddev"`
	// Prompt is text or token_ids; Vocabulary bounds ids.
	Prompt     string `json:"prompt"`
	Vocabulary int    `json:"vocabulary"`
	// Tokenizer is a folder with a tokenizer.json, or the file.
	Tokenizer string `json:"tokenizer"`
	// TokenCounts says who counts tokens: auto (the tokenizer, else the server's
	// usage) or server (its /tokenize, when the load is over).
	TokenCounts string `json:"token_counts"`
	// Trace is a file in mooncake form; it replaces synthetic prompts and, where
	// its lines have timestamps, the arrivals. TraceSpeed is how many times
	// faster than recorded.
	Trace      string  `json:"trace"`
	TraceSpeed float64 `json:"trace_speed"`

	// CancelShare of the requests are given up CancelDelay seconds after they
	// were sent.
	CancelShare float64 `json:"cancel_share"`
	CancelDelay float64 `json:"cancel_delay"`
	// SLO are limits by metric that good requests keep.
	SLO map[string]float64 `json:"slo"`
	// CacheReset asks the server to forget its prefix cache first: auto, require
	// or never.
	CacheReset string `json:"cache_reset"`
	// Log is which requests get a line: records, all or none.
	Log string `json:"request_log"`

	Seed uint64 `json:"seed"`
}

// Words of settings.
const (
	SamplingSequential = "sequential"
	SamplingShuffle    = "shuffle"

	PromptText = "text"
	PromptIDs  = "token_ids"

	ResetAuto    = "auto"
	ResetRequire = "require"
	ResetNever   = "never"

	CountsAuto   = "auto"
	CountsServer = "server"

	LogRecords = "records"
	LogNone    = "none"
)

// DefaultSettings are those of a plan that says nothing.
func DefaultSettings() Settings {
	return Settings{
		URL: "localhost:8000", EndpointType: string(openai.Chat), Streaming: true, Timeout: 6 * 3600, RequireDone: true,
		Arrival: arrivals.Poisson, Smoothness: 1, Grace: 30,
		ISL: 550, Sampling: SamplingSequential, Prompt: PromptText, Vocabulary: 30_000, TraceSpeed: 1,
		CacheReset: ResetAuto, Log: LogRecords, TokenCounts: CountsAuto,
	}
}

// Names are the words of settings, sorted.
func Names() []string {
	raw, err := json.Marshal(Settings{})
	if err != nil {
		panic("load: settings are no JSON: " + err.Error())
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		panic("load: settings are no JSON object: " + err.Error())
	}
	return slices.Sorted(maps.Keys(m))
}

// Set overrides settings by name.
func (s *Settings) Set(values map[string]any) error {
	raw, err := json.Marshal(values)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("%s is a %s; a %s is needed", te.Field, te.Value, plainType(te.Type.String()))
		}
		return err
	}
	return nil
}

func plainType(t string) string {
	switch t {
	case "int", "uint64":
		return "whole number"
	case "float64":
		return "number"
	case "bool":
		return "true or false"
	}
	return t
}

// Settle fills in what follows from other settings and reports what is wrong.
func (s *Settings) Settle() error {
	oneOf := func(name, value string, words ...string) error {
		if !slices.Contains(words, value) {
			return fmt.Errorf("%s is %q; it must be one of %s", name, value, strings.Join(words, ", "))
		}
		return nil
	}
	if s.Batch > 0 {
		if s.Concurrency == 0 {
			s.Concurrency = s.Batch
		}
		if s.Requests == 0 && s.Duration == 0 {
			s.Requests = s.Batch
		}
	}
	if s.Concurrency == 0 && s.RequestRate == 0 && s.Trace == "" {
		s.Concurrency = 1
	}
	if s.Requests == 0 && s.Duration == 0 && s.Sessions == 0 && s.Trace == "" {
		s.Requests = max(10, 2*s.Concurrency)
	}
	if s.Entries == 0 {
		// One for every request that is sure to come.
		switch {
		case s.Sessions > 0:
			s.Entries = s.Sessions
		case s.Requests > 0:
			s.Entries = max(1, int(math.Ceil(float64(s.Requests)/max(s.Turns, 1))))
		default:
			s.Entries = 10_000
		}
		s.Entries += s.WarmupRequests
	}
	for _, err := range []error{
		oneOf("endpoint_type", s.EndpointType, openai.Endpoints()...),
		oneOf("arrival", s.Arrival, arrivals.Patterns()...),
		oneOf("sampling", s.Sampling, SamplingSequential, SamplingShuffle),
		oneOf("prompt", s.Prompt, PromptText, PromptIDs),
		oneOf("cache_reset", s.CacheReset, ResetAuto, ResetRequire, ResetNever),
		oneOf("request_log", s.Log, LogRecords, LogNone),
		oneOf("token_counts", s.TokenCounts, CountsAuto, CountsServer),
		openai.CheckExtra(s.ExtraInputs),
	} {
		if err != nil {
			return err
		}
	}
	for name, v := range map[string]float64{
		"concurrency": float64(s.Concurrency), "prefill_concurrency": float64(s.PrefillConcurrency), "users": float64(s.Users), "request_rate": s.RequestRate, "concurrency_ramp": s.ConcurrencyRamp, "request_rate_ramp": s.RateRamp,
		"batch": float64(s.Batch), "requests": float64(s.Requests), "duration": s.Duration, "grace": s.Grace, "sessions": float64(s.Sessions), "warmup_requests": float64(s.WarmupRequests),
		"cancel_delay": s.CancelDelay, "request_timeout": s.Timeout, "entries": float64(s.Entries),
	} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s is %v; it must not be negative", name, v)
		}
	}
	switch {
	case s.Model == "":
		return errors.New("model is not set; give the name that the server knows the model by")
	case s.Prompt == PromptIDs && s.EndpointType != string(openai.Completions):
		return errors.New(`prompt = "token_ids" needs endpoint_type = "completions": the chat endpoint takes text only`)
	case s.Batch > 0 && (s.RequestRate > 0 || s.Trace != "" || s.Turns > 1 || s.ConcurrencyRamp > 0):
		return errors.New("batch is set: batches follow each other, so leave request_rate, trace, turns and concurrency_ramp away")
	case s.Batch > 0 && s.Concurrency != s.Batch:
		return fmt.Errorf("batch is %d and concurrency is %d; all requests of a batch are open at once, so leave concurrency away", s.Batch, s.Concurrency)
	case s.Batch > 0 && (s.Requests%s.Batch != 0 || s.WarmupRequests%s.Batch != 0):
		return fmt.Errorf("batch is %d; requests (%d) and warmup_requests (%d) must be multiples of it", s.Batch, s.Requests, s.WarmupRequests)
	case s.Concurrency > 100_000:
		return fmt.Errorf("concurrency is %d; a machine has fewer ports than that", s.Concurrency)
	case !(s.CancelShare >= 0 && s.CancelShare <= 1):
		return fmt.Errorf("cancel_share is %v; it is a share between 0 and 1", s.CancelShare)
	case !(s.TraceSpeed > 0):
		return fmt.Errorf("trace_speed is %v; it must be above 0", s.TraceSpeed)
	case s.Timeout == 0:
		return errors.New("request_timeout is 0; give the seconds that a request may take")
	case s.PrefillConcurrency > 0 && !s.Streaming:
		return errors.New("prefill_concurrency needs streaming = true: without a stream nobody sees when the prefill is over")
	case s.PrefillConcurrency > s.Concurrency && s.Concurrency > 0:
		return fmt.Errorf("prefill_concurrency is %d and concurrency %d; it must not be above it", s.PrefillConcurrency, s.Concurrency)
	case s.Users > 0 && s.RequestRate == 0:
		return errors.New("users is set and request_rate is not; give the rate that all users have together")
	case s.Users > 0 && (s.TurnDelay > 0 || s.Trace != ""):
		return errors.New("users decide the time between turns; leave turn_delay and trace away")
	case s.Users > 0 && s.Requests > 0 && s.Requests < s.Users:
		return fmt.Errorf("there are %d requests for %d users; each needs at least one", s.Requests, s.Users)
	case s.TokenCounts == CountsServer && s.Tokenizer != "":
		return errors.New(`tokenizer and token_counts = "server" are both set; keep one`)
	case s.APIKeyEnv != "" && s.APIKeyFile != "", s.APIKey != "" && s.APIKeyEnv+s.APIKeyFile != "":
		return errors.New("of api_key, api_key_env and api_key_file more than one is set; keep one")
	}
	if s.RequestRate > 0 {
		if err := (arrivals.Config{Pattern: s.Arrival, Rate: s.RequestRate, Smoothness: s.Smoothness}).Validate(); err != nil {
			return err
		}
	}
	for name := range s.Headers {
		if secret(name) {
			return fmt.Errorf("the header %s carries a secret, and a plan is read by others; use api_key, api_key_env or api_key_file", name)
		}
		if strings.ContainsAny(name+s.Headers[name], "\r\n") || name == "" {
			return fmt.Errorf("the header %q has a line end or no name", name)
		}
	}
	if _, err := metrics.ParseSLO(s.SLO); err != nil {
		return err
	}
	if s.Trace == "" {
		if err := s.synthetic(nil, 0).Validate(); err != nil {
			return err
		}
	}
	_, err := s.Target()
	return err
}

// secret says that a header's value should be in no plan.
func secret(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie", "x-api-key", "api-key":
		return true
	}
	return false
}

func (s *Settings) synthetic(t prompts.Tokenizer, salt uint64) prompts.Config {
	return prompts.Config{
		Entries: s.Entries, Input: prompts.Length{Mean: s.ISL, StdDev: s.ISLStdDev}, Output: prompts.Length{Mean: s.OSL, StdDev: s.OSLStdDev},
		Turns: prompts.Length{Mean: s.Turns, StdDev: s.TurnsStdDev}, Delay: prompts.Length{Mean: s.TurnDelay, StdDev: s.TurnDelayStdDev},
		Prefix: s.PrefixLength, PrefixPool: s.PrefixPool, IDs: s.Prompt == PromptIDs, Vocabulary: s.Vocabulary,
		Tokenizer: t, Seed: s.Seed ^ salt,
	}
}

// Target is the URL that requests go to.
func (s *Settings) Target() (*url.URL, error) {
	text := s.URL
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		// The parser's own text repeats the URL, which may hold a password.
		return nil, errors.New("url is no URL; it must look like http://host:8000")
	}
	switch {
	case u.User != nil:
		return nil, errors.New("url holds a user name or password; use api_key, api_key_env or api_key_file")
	case u.Host == "":
		return nil, fmt.Errorf("url %q names no host", s.URL)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("url has a query or fragment; leave it away")
	}
	base := strings.TrimSuffix(u.Path, "/")
	path := openai.Endpoint(s.EndpointType).Path()
	if s.Path != "" {
		path = "/" + strings.TrimPrefix(s.Path, "/")
	} else {
		path = strings.TrimPrefix(path, commonPrefix(base))
	}
	u.Path = base + path
	return u, nil
}

// commonPrefix lets a URL end in /v1 as OpenAI's clients have it.
func commonPrefix(base string) string {
	if strings.HasSuffix(base, "/v1") {
		return "/v1"
	}
	return ""
}

// key reads the API key; "" without one. Its errors never hold it.
func (s *Settings) key(getenv func(string) string) (string, error) {
	var key string
	switch {
	case s.APIKey != "":
		key = s.APIKey
	case s.APIKeyEnv != "":
		if key = getenv(s.APIKeyEnv); key == "" {
			return "", fmt.Errorf("the environment variable %s that api_key_env names is not set", s.APIKeyEnv)
		}
	case s.APIKeyFile != "":
		raw, err := os.ReadFile(s.APIKeyFile)
		if err != nil {
			return "", fmt.Errorf("api_key_file: %w", err)
		}
		key = string(raw)
		if strings.TrimSpace(key) == "" {
			return "", fmt.Errorf("api_key_file %s is empty", filepath.Base(s.APIKeyFile))
		}
	}
	key = strings.TrimSpace(key)
	if strings.ContainsAny(key, "\r\n") {
		return "", errors.New("the API key has more than one line")
	}
	return key, nil
}

func seconds(s float64) time.Duration {
	return time.Duration(min(s, 1e9) * float64(time.Second))
}

// TLS is how a connection to an https server is made; nil where nothing is
// special about it.
func (s *Settings) TLS() (*tls.Config, error) {
	if s.CAFile == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without any
	}
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("ca_file %s has no certificate in PEM form (-----BEGIN CERTIFICATE-----)", filepath.Base(s.CAFile))
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
