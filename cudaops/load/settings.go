// Package load puts load on an OpenAI-compatible endpoint and measures the performance that its users would
// see. It contains arrival processes, prompt generation, an HTTP client that stamps every read, metrics
// with AIPerf's definitions, and figures that show whether the client was the bottleneck.
package load

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/workload"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

// Settings define one load point. The JSON names are those used in plans.
type Settings struct {
	// URL is the server's base URL. The scheme is optional and defaults to http. A path in it is prepended
	// to the endpoint's path unless it already ends in it. A query is sent with every request.
	URL string `json:"url"`
	// URLs are several servers that share the load, instead of URL. URLWeights are their shares, 1 by default.
	URLs       []string           `json:"urls"`
	URLWeights map[string]float64 `json:"url_weights"`

	// Model is the model that requests ask for. Models are several models with their shares, such as LoRA adapters,
	// instead of Model.
	Model        string             `json:"model"`
	Models       map[string]float64 `json:"models"`
	EndpointType openai.Endpoint    `json:"endpoint_type"`

	// Path replaces the endpoint's default path.
	Path      string            `json:"endpoint"`
	Streaming bool              `json:"streaming"`
	Headers   map[string]string `json:"headers"`

	// APIKeyEnv and APIKeyFile name the environment variable or the file with the API key. The key itself
	// is in no plan and no result.
	APIKeyEnv  string `json:"api_key_env"`
	APIKeyFile string `json:"api_key_file"`

	// APIKeyHeader is the header with the key. Authorization has it as a bearer token, any other header as it is.
	APIKeyHeader string `json:"api_key_header"`

	// CAFile is a PEM file with certificates of a private authority, which are trusted in addition to the
	// system's.
	CAFile string `json:"ca_file"`

	// APIKey is the key itself. It is never written to a file.
	APIKey secret `json:"api_key"`

	// ExtraInputs are merged into every request body.
	ExtraInputs map[string]json.RawMessage `json:"extra_inputs"`

	// Timeout bounds one request, in seconds.
	Timeout float64 `json:"request_timeout"`

	// RequireDone treats a stream without [DONE] as a failure.
	RequireDone bool `json:"require_done"`

	// Concurrency is the number of open requests. With a request rate it is a cap, and 0 means no cap.
	Concurrency int `json:"concurrency"`

	// PrefillConcurrency limits how many requests may wait for their first token at the same time. 0 means
	// unlimited.
	PrefillConcurrency int `json:"prefill_concurrency"`

	// RequestRate is in requests per second. 0 sends the next request as soon as Concurrency allows.
	RequestRate float64 `json:"request_rate"`
	Arrival     string  `json:"arrival"`
	Smoothness  float64 `json:"arrival_smoothness"`

	// Users is the number of users who share RequestRate. Each sends the turns of its conversations
	// Users/RequestRate seconds apart, independent of response times. 0 means arrivals without users.
	Users int `json:"users"`

	// ConcurrencyRamp and RateRamp are the seconds in which concurrency and rate grow to their values.
	ConcurrencyRamp float64 `json:"concurrency_ramp"`
	RateRamp        float64 `json:"request_rate_ramp"`

	// Requests, Duration (seconds) and Sessions limit the load. The first limit that is reached ends it,
	// and 0 means unlimited. Grace is how long open requests may continue after Duration, in seconds.
	Requests int     `json:"requests"`
	Duration float64 `json:"duration"`
	Grace    float64 `json:"grace"`
	Sessions int     `json:"sessions"`

	// MaxErrors, MaxErrorRate and MaxConsecutiveErrors end the load early: after that number of failed requests, if the
	// share of failed requests exceeds the rate, or after that number without a success in between. 0 disables
	// them.
	MaxErrors            int     `json:"max_errors"`
	MaxErrorRate         float64 `json:"max_error_rate"`
	MaxConsecutiveErrors int     `json:"max_consecutive_errors"`

	// OverSaturation ends an open-loop load if the number of unanswered requests has grown for that many seconds, because
	// the server cannot keep up with the rate. 0 disables it.
	OverSaturation float64 `json:"over_saturation"`

	// Batch is the size of closed batches. All requests of a batch are sent at once, and the next batch
	// starts when the last of them has ended. 0 disables batches.
	Batch int `json:"batch"`

	// Repeats is how often the load point is measured.
	Repeats int `json:"repeats"`

	// WarmupRequests are sent first and excluded from the results.
	WarmupRequests int `json:"warmup_requests"`

	ISL       float64 `json:"isl"`
	ISLStdDev float64 `json:"isl_stddev"`
	OSL       float64 `json:"osl"`
	OSLStdDev float64 `json:"osl_stddev"`

	// Entries is the number of different conversations. 0 generates one for each request, so that no prompt
	// is found in a prefix cache.
	Entries         int     `json:"entries"`
	Sampling        string  `json:"sampling"`
	PrefixLength    int     `json:"prefix_length"`
	PrefixPool      int     `json:"prefix_pool"`
	Turns           float64 `json:"turns"`
	TurnsStdDev     float64 `json:"turns_stddev"`
	TurnDelay       float64 `json:"turn_delay"`
	TurnDelayStdDev float64 `json:"turn_delay_stddev"`

	// Prompt is text or token_ids. Vocabulary is the upper bound of the ids.
	Prompt     string `json:"prompt"`
	Vocabulary int    `json:"vocabulary"`

	// Tokenizer is a tokenizer.json file or a folder that contains one.
	Tokenizer string `json:"tokenizer"`

	// Trace is a file with recorded requests; see workload.Trace. It replaces synthetic prompts and, if its lines have
	// timestamps, the arrivals. TraceSpeed is the speedup of the replay.
	Trace      string  `json:"trace"`
	TraceSpeed float64 `json:"trace_speed"`

	// Dataset is a file with prompts that replaces synthetic ones; see workload.Dataset.
	Dataset string `json:"dataset"`

	// Documents is the number of texts of a request of embeddings or rerank, each with ISL tokens. Query is the length of
	// the query of rerank.
	Documents int `json:"documents"`
	Query     int `json:"query_length"`

	// Images is the number of generated images of a chat request.
	Images      int `json:"images"`
	ImageWidth  int `json:"image_width"`
	ImageHeight int `json:"image_height"`

	// CancelShare is the fraction of requests that are cancelled CancelDelay seconds after they were sent.
	CancelShare float64 `json:"cancel_share"`
	CancelDelay float64 `json:"cancel_delay"`

	// SLO are limits by metric name. A good request meets all of them.
	SLO map[string]float64 `json:"slo"`

	// CacheReset selects whether the server's prefix cache is cleared before the run: auto, require or
	// never.
	CacheReset string `json:"cache_reset"`

	// ServerMetrics is the time between two readings of the servers' metrics pages, in seconds. 0 disables them.
	ServerMetrics float64 `json:"server_metrics"`

	// Slice is the length of the time slices with metrics of their own, in seconds. 0 disables them.
	Slice float64 `json:"slice"`

	// Generators are the commands that run aicplan for further generators of the load.
	Generators []string `json:"generators"`

	// Log selects which requests are logged: records or none.
	Log string `json:"request_log"`

	Seed uint64 `json:"seed"`

	// Labels are columns of the case that are no settings.
	Labels []string `json:"labels"`

	// given has the names of the settings that a plan sets, also if it sets them to 0.
	given map[string]bool
}

// secret is a text that encodes to null, so that it is in no file.
type secret string

// MarshalJSON implements json.Marshaler.
func (secret) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// Values of settings.
const (
	SamplingSequential = "sequential"
	SamplingShuffle    = "shuffle"

	PromptText = "text"
	PromptIDs  = "token_ids"

	ResetAuto    = "auto"
	ResetRequire = "require"
	ResetNever   = "never"

	LogRecords = "records"
	LogNone    = "none"
)

// Set overrides settings by their JSON names. It returns an error for unknown names and wrong types.
func (s *Settings) Set(values map[string]any) error {
	raw, err := json.Marshal(values)
	if err != nil {
		return err
	}

	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("%s is a %s; a %s is needed", te.Field, te.Value, plainType(te.Type))
		}
		return err
	}

	return nil
}

func plainType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Uint64:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "string"
	}
	return t.String()
}

// Settle fills in defaults that depend on other settings. It returns an error if the settings are invalid.
func (s *Settings) Settle() error {
	before := *s
	if s.Batch > 0 {
		s.Concurrency = cmp.Or(s.Concurrency, s.Batch)
		if s.Requests == 0 && s.Duration == 0 && s.Sessions == 0 && s.Dataset == "" {
			s.Requests = s.Batch
		}
	}

	s.APIKeyHeader = cmp.Or(s.APIKeyHeader, authorization)
	if !s.EndpointType.Generates() {
		s.Streaming = false
		s.Documents = max(s.Documents, 1)
	}

	if s.Concurrency == 0 && s.RequestRate == 0 && s.Trace == "" {
		s.Concurrency = 1
	}

	if s.Requests == 0 && s.Duration == 0 && s.Sessions == 0 && s.Trace+s.Dataset == "" {
		s.Requests = max(10, 2*s.Concurrency)
	}

	if s.Entries == 0 {
		// One for each conversation that may start. Those that are open at the end have sent only a part of their turns.
		switch {
		case s.Sessions > 0:
			s.Entries = s.Sessions
		case s.Requests > 0:
			s.Entries = s.Requests
		default:
			s.Entries = endless
		}
		s.Entries += s.WarmupRequests
	}

	if err := s.check(&before); err != nil {
		return err
	}

	if err := openai.CheckExtra(s.ExtraInputs); err != nil {
		return err
	}

	switch {
	case s.Prompt == PromptIDs && s.EndpointType != openai.Completions:
		return errors.New(`prompt = "token_ids" needs endpoint_type = "completions": the chat endpoint takes text only`)

	case s.OSL == 0 && s.given["osl"] && s.EndpointType.Generates():
		return errors.New("osl is 0; give it at least 1, or null to leave the length to the server")

	case s.Trace != "" && (s.given["isl"] || s.given["osl"] || s.ISLStdDev+s.OSLStdDev > 0):
		return errors.New("trace is set: its requests have their own lengths, so remove isl, osl and their stddev")

	case s.Dataset != "" && (s.given["isl"] || s.ISLStdDev > 0):
		return errors.New("dataset is set: its prompts have their own lengths, so remove isl and isl_stddev; a column " +
			"that only names cases belongs to labels of the runtime")

	case s.Trace != "" && s.Dataset != "":
		return errors.New("trace and dataset are both set; keep one")

	case s.Documents > 0 && s.EndpointType.Generates():
		return errors.New(`documents needs endpoint_type "embeddings" or "rerank"`)

	case !s.EndpointType.Generates() && (s.Trace+s.Dataset != "" || s.Turns > 1 || s.TurnsStdDev > 0):
		return fmt.Errorf("endpoint_type %q takes synthetic documents of one turn; remove trace, dataset and turns",
			s.EndpointType)

	case s.Images > 0 && s.EndpointType != openai.Chat && s.EndpointType != openai.Responses:
		return errors.New(`images needs endpoint_type "chat" or "responses"`)

	case s.Batch > 0 && (s.RequestRate > 0 || s.Trace != "" || s.Turns > 1 || s.ConcurrencyRamp > 0):
		return errors.New(
			"batch is set: batches follow each other, so remove request_rate, trace, turns and concurrency_ramp",
		)

	case s.Batch > 0 && s.Concurrency != s.Batch:
		return fmt.Errorf(
			"batch is %d and concurrency is %d; all requests of a batch are open at once, so remove concurrency",
			s.Batch,
			s.Concurrency,
		)

	case s.Batch > 0 && (s.Requests%s.Batch != 0 || s.Sessions%s.Batch != 0 || s.WarmupRequests%s.Batch != 0):
		return fmt.Errorf("batch is %d; requests (%d), sessions (%d) and warmup_requests (%d) must be multiples of it",
			s.Batch, s.Requests, s.Sessions, s.WarmupRequests)

	case s.RequestRate == 0 && s.Trace == "" && s.open() > 0 && s.Concurrency > s.open():
		return fmt.Errorf("concurrency is %d, and only %d requests can be open; give the load more requests", s.Concurrency,
			s.open())

	case s.PrefillConcurrency > 0 && !s.Streaming:
		return errors.New("prefill_concurrency needs streaming = true: without a stream, the end of the prefill is unknown")

	case s.PrefillConcurrency > s.Concurrency && s.Concurrency > 0:
		return fmt.Errorf("prefill_concurrency is %d and concurrency %d; it must not be above it",
			s.PrefillConcurrency, s.Concurrency)

	case s.OverSaturation > 0 && s.RequestRate == 0:
		return errors.New("over_saturation is set and request_rate is not; only a rate can exceed what the server completes")

	case s.Slice > 0 && s.Slice < 0.001, s.ServerMetrics > 0 && s.ServerMetrics < 0.001:
		return errors.New("slice and server_metrics are 0 or seconds from 0.001 on")

	case s.Users > 0 && s.RequestRate == 0:
		return errors.New("users is set and request_rate is not; give the rate that all users have together")

	case s.Users > 0 && (s.TurnDelay > 0 || s.Trace != "" || s.RateRamp > 0 ||
		s.given["arrival"] && s.Arrival != workload.Constant):
		return errors.New("users decide the time between turns; remove turn_delay, trace, request_rate_ramp and arrival")

	case s.Smoothness != 1 && s.Arrival != workload.Gamma:
		return fmt.Errorf("arrival_smoothness is the shape of gamma arrivals, and arrival is %q; set it to %q, or remove "+
			"arrival_smoothness", s.Arrival, workload.Gamma)

	case s.Users > 0 && s.Requests > 0 && s.Requests < s.Users:
		return fmt.Errorf("there are %d requests for %d users; each needs at least one", s.Requests, s.Users)

	case s.APIKeyEnv != "" && s.APIKeyFile != "", s.APIKey != "" && s.APIKeyEnv+s.APIKeyFile != "":
		return errors.New("of api_key, api_key_env and api_key_file more than one is set; keep one")

	case s.given["api_key_header"] && !s.bearer() && !s.given["api_key"] && s.APIKeyEnv+s.APIKeyFile == "":
		return errors.New("api_key_header is set, and none of api_key, api_key_env and api_key_file is; set one of them")
	}

	if err := checkKeyHeader(s.APIKeyHeader); err != nil {
		return fmt.Errorf("api_key_header: %w", err)
	}

	for name := range s.Headers {
		if secretHeader(name) || strings.EqualFold(name, s.APIKeyHeader) {
			return fmt.Errorf(
				"the header %s carries a secret, and a plan is read by others; use api_key, api_key_env or api_key_file, and "+
					"api_key_header if the header is not Authorization", name)
		}
		if strings.ContainsAny(name+s.Headers[name], "\r\n") || name == "" {
			return fmt.Errorf("the header %q has a line end or no name", name)
		}
	}

	if _, err := aiperf.ParseSLO(s.SLO); err != nil {
		return err
	}

	if err := s.checkStreamed(s.SLO); err != nil {
		return err
	}

	if err := s.checkGenerators(); err != nil {
		return err
	}

	return s.checkTargets()
}

// endless is the number of conversations of a load without a number of requests. Further requests repeat them.
const endless = 1 << 20

// checkStreamed returns an error if responses without a stream cannot meet a limit, because they lack its metric.
func (s *Settings) checkStreamed(slo map[string]float64) error {
	streams := s.Streaming && s.EndpointType.Generates()
	for _, name := range slices.Sorted(maps.Keys(slo)) {
		if !streams && aiperf.Streamed(name) {
			return fmt.Errorf("slo has %s, which only streams have, and responses are not streamed; remove it", name)
		}
	}
	return nil
}

// open returns how many requests can be open at once if concurrency has no limit, or 0 if that is unlimited.
func (s *Settings) open() int {
	return cmp.Or(min(s.Requests, s.Sessions), max(s.Requests, s.Sessions))
}

// secretHeader reports whether the header usually carries a secret, which must not be in a plan.
func secretHeader(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie", "x-api-key", "api-key":
		return true
	}
	return false
}

func (s *Settings) synthetic(t workload.Tokenizer, salt uint64) workload.Config {
	return workload.Config{
		Entries: s.Entries, Input: workload.Length{Mean: s.ISL, StdDev: s.ISLStdDev},
		Output: workload.Length{Mean: s.OSL, StdDev: s.OSLStdDev},
		Turns:  workload.Length{Mean: s.Turns, StdDev: s.TurnsStdDev},
		Delay:  workload.Length{Mean: s.TurnDelay, StdDev: s.TurnDelayStdDev},
		Prefix: s.PrefixLength, PrefixPool: s.PrefixPool, IDs: s.Prompt == PromptIDs, Vocabulary: s.Vocabulary,
		Tokenizer: t, Seed: s.Seed ^ salt, Documents: s.Documents, Query: s.Query,
		Images: s.Images, Width: s.ImageWidth, Height: s.ImageHeight,
	}
}

// bearer reports whether the API key is sent as a bearer token.
func (s *Settings) bearer() bool { return strings.EqualFold(s.APIKeyHeader, authorization) }

const authorization = "Authorization"

// setKey adds the API key to the headers of a request.
func (s *Settings) setKey(h http.Header, key string) {
	switch {
	case key == "":
	case s.bearer():
		h.Set(authorization, "Bearer "+key)
	default:
		h.Set(s.APIKeyHeader, key)
	}
}

// checkKeyHeader returns an error if a header cannot have the API key.
func checkKeyHeader(name string) error {
	const marks = "!#$%&'*+-.^_`|~" // of RFC 9110, besides letters and digits
	if name == "" || strings.ContainsFunc(name, func(c rune) bool {
		return c > '~' || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune(marks, c)
	}) {
		return fmt.Errorf("%q is not the name of a header, such as api-key", name)
	}

	switch strings.ToLower(name) {
	case "accept", "connection", "content-length", "content-type", "cookie", "host", "proxy-authorization",
		"transfer-encoding", "user-agent", "x-correlation-id", "x-request-id":
		return fmt.Errorf("the header %s has another meaning; name the header that the server reads, such as api-key",
			name)
	}
	return nil
}

// parseURL returns the URL of a server. It returns an error if the URL contains a secret. Errors do not.
func parseURL(text string) (*url.URL, error) {
	if before, _, _ := strings.Cut(text, "?"); !strings.Contains(before, "://") {
		text = "http://" + text
	}

	u, err := url.Parse(text)
	if err != nil {
		// The parser's error contains the URL, which may include a password.
		return nil, errors.New("it is no URL; it must look like http://host:8000")
	}

	query, err := url.ParseQuery(u.RawQuery)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if textutil.SecretName(name) {
			return nil, fmt.Errorf("the URL has the query parameter %.40q, which looks like a secret, and URLs are in records "+
				"and files; remove it, set api_key, api_key_env or api_key_file, and name the header with the key in "+
				"api_key_header", name)
		}
	}

	switch {
	case u.User != nil:
		return nil, errors.New("the URL has a user name or password; use api_key, api_key_env or api_key_file")
	case err != nil || strings.ContainsFunc(u.RawQuery, func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, errors.New("the query of the URL has characters that must be escaped; write %20 for a blank, %3B for ;")
	case u.Fragment != "":
		return nil, errors.New("the URL has a fragment, which is never sent; remove it")
	case u.Host == "":
		return nil, fmt.Errorf("%q names no host", text)
	}
	return u, nil
}

// Target returns the URL that requests to a server are sent to. The path of the endpoint is added unless the server's
// URL ends in it.
func (s *Settings) Target(server string) (*url.URL, error) {
	u, err := parseURL(server)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}

	base, ends := openai.Split(u.Path)
	own, path := s.EndpointType, "/"+strings.TrimPrefix(s.Path, "/")
	_, err = url.PathUnescape(s.Path)
	switch {
	case err != nil || strings.ContainsAny(s.Path, "?#"):
		return nil, errors.New("endpoint is no path; move a query to url, and write %25 for a percent sign")
	case s.Path != "" && strings.HasSuffix(u.Path, path), s.Path == "" && ends == own:
		return u, nil
	case s.Path == "" && ends != "":
		return nil, fmt.Errorf("url ends in the path of endpoint_type %q, and endpoint_type is %q; change one of them, or "+
			"end url before that path", ends, own)
	case s.Path == "":
		path = own.Path()
		if base != strings.TrimSuffix(u.Path, "/") { // it ends in the version, as base URLs of OpenAI clients do
			path = strings.TrimPrefix(path, openai.Version)
		}
	}

	u.Path = cmp.Or(u.Path, "/")
	return u.JoinPath(path), nil
}

// key returns the API key, or "" if none is set. Its errors never contain the key.
func (s *Settings) key(getenv func(string) string) (string, error) {
	var key string
	switch {
	case s.APIKey != "":
		key = string(s.APIKey)

	case s.APIKeyEnv != "":
		if key = getenv(s.APIKeyEnv); key == "" {
			return "", fmt.Errorf("the environment variable %s that api_key_env names is not set", s.APIKeyEnv)
		}

	case s.APIKeyFile != "":
		raw, err := fileutil.ReadText(s.APIKeyFile)
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
	return time.Duration(math.Ceil(min(s, 1e9) * float64(time.Second))) // 0 often means unlimited
}

// TLS returns the TLS configuration for an https server, or nil if no CA file is set.
func (s *Settings) TLS() (*tls.Config, error) {
	if s.CAFile == "" {
		return nil, nil
	}

	raw, err := fileutil.ReadText(s.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}

	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // the machine has no system certificates
	}

	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("ca_file %s has no certificate in PEM form (-----BEGIN CERTIFICATE-----)",
			filepath.Base(s.CAFile))
	}

	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
