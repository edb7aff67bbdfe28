package load

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/workload"
)

// Option declares one option of an endpoint runtime or of its load block. Its value is stored in the field of
// Settings that has the same JSON name.
type Option struct {
	Name, Doc string

	// Default applies if a plan does not set the option. If it is nil, the default is the zero value. Depends describes a
	// default that depends on other options.
	Default any
	Depends string

	// OneOf are the allowed values of a text. Check returns the error of a text that is not allowed.
	OneOf []string
	Check func(text string) error

	// Positive requires a number above 0, Share one of at most 1, and Least and Most, if not 0, one between them. No
	// number may be negative.
	Positive, Share bool
	Least, Most     int

	// Needs is the option without which this one has no effect.
	Needs string

	// Generated marks options of generated prompts, which have no effect on those of a trace or dataset.
	Generated bool

	// Beside marks options that do not change what a row means. Secret options are never stored.
	Required, Beside, Secret bool

	// Flag is AIPerf's flag for the option. Its value is the option's value times Scale, if Scale is not 0.
	Flag  string
	Scale float64

	// Always adds the flag even if the option has its default, because AIPerf's default differs.
	Always bool
}

// Kind returns the type of the option's values: text, number, bool, texts (a map), numbers (a map), list or any.
func (o Option) Kind() string {
	switch t := fieldOf(reflect.ValueOf(&Settings{}), o.Name).Type(); t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "bool"
	case reflect.Slice:
		return "list"
	case reflect.Map:
		switch t.Elem().Kind() {
		case reflect.String:
			return "texts"
		case reflect.Float64:
			return "numbers"
		}
		return "any"
	default:
		return "number"
	}
}

// fieldOf returns the field of a *Settings with a JSON name.
func fieldOf(s reflect.Value, name string) reflect.Value {
	return s.Elem().FieldByIndex(fields()[name])
}

// fields returns the indexes of the fields of Settings by JSON name.
var fields = sync.OnceValue(func() map[string][]int {
	out := map[string][]int{}
	for f := range reflect.TypeFor[Settings]().Fields() {
		out[f.Tag.Get("json")] = f.Index
	}
	return out
})

// PlanOptions returns the options of the runtime block, or those of the load block, in the order of the documentation.
func PlanOptions(runtime bool) []Option {
	if runtime {
		return runtimeOptions
	}
	return loadOptions
}

// options are all options.
var options = slices.Concat(runtimeOptions, loadOptions)

// option returns the option with a name, or nil.
func option(name string) *Option {
	i := slices.IndexFunc(options, func(o Option) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return &options[i]
}

// Names returns the names of all settings, sorted.
func Names() []string {
	out := make([]string, 0, len(options))
	for _, o := range options {
		if o.Name != labels && !o.Secret {
			out = append(out, o.Name)
		}
	}
	slices.Sort(out)
	return out
}

// labels is the option that names the columns of a grid which are no settings.
const labels = "labels"

// DefaultSettings returns the settings of a plan that sets none of them.
func DefaultSettings() Settings {
	values := map[string]any{}
	for _, o := range options {
		if o.Default != nil {
			values[o.Name] = o.Default
		}
	}

	var s Settings
	if err := s.Set(values); err != nil {
		panic("load: the defaults of options: " + err.Error())
	}
	return s
}

// check returns an error if a value is not allowed by its option, has no effect, or is a 0 in before that a default
// has replaced.
func (s *Settings) check(before *Settings) error {
	all := reflect.ValueOf(s)
	for _, o := range options {
		v := fieldOf(all, o.Name)
		if s.given[o.Name] {
			switch {
			case o.Depends != "" && fieldOf(reflect.ValueOf(before), o.Name).IsZero() && !v.IsZero():
				return fmt.Errorf("%s is 0; give it at least 1, or null for the default, %s", o.Name, o.Depends)
			case o.Needs != "" && !s.given[o.Needs] && fieldOf(all, o.Needs).IsZero() &&
				jsonOf(v.Interface()) != o.defaultJSON():
				return fmt.Errorf("%s is set and %s is not; without it, %s has no effect", o.Name, o.Needs, o.Name)
			case o.Generated && s.Trace+s.Dataset != "" &&
				jsonOf(fieldOf(reflect.ValueOf(before), o.Name).Interface()) != o.defaultJSON():
				return fmt.Errorf("%s shapes generated prompts and has no effect on those of %s; remove one of them",
					o.Name, s.Trace+s.Dataset)
			}
		}
		switch v.Kind() {
		case reflect.String:
			text := v.String()
			if o.OneOf != nil && !slices.Contains(o.OneOf, text) {
				return fmt.Errorf("%s is %q; it must be one of %s", o.Name, text, strings.Join(o.OneOf, ", "))
			}
			if o.Required && text == "" {
				return fmt.Errorf("%s is not set; it is %s", o.Name, o.Doc)
			}

		case reflect.Int, reflect.Float64:
			n := v.Convert(reflect.TypeFor[float64]()).Float()
			switch {
			case !(n >= 0) || math.IsInf(n, 0):
				return fmt.Errorf("%s is %v; it must not be negative", o.Name, n)
			case o.Positive && n == 0:
				return fmt.Errorf("%s is 0; it must be above 0", o.Name)
			case o.Share && n > 1:
				return fmt.Errorf("%s is %v; it is a share between 0 and 1", o.Name, n)
			case n < float64(o.Least) || o.Most > 0 && n > float64(o.Most):
				return fmt.Errorf("%s is %v; it must be from %d to %d", o.Name, n, o.Least, o.Most)
			}
		}
	}

	return nil
}

// command returns the AIPerf command line for the same load. It omits options without an AIPerf flag, and headers,
// which may contain private data.
func command(s *Settings) string {
	out := []string{"aiperf profile"}
	quoted := func(v any) string {
		return "'" + strings.ReplaceAll(fmt.Sprint(v), "'", `'\''`) + "'"
	}

	// AIPerf adds a path to each URL, after its query if there is one.
	given, err := parseURL(s.URL)
	if to, failed := s.Target(s.URL); err == nil && failed == nil && (to.Path == given.Path || to.RawQuery != "") {
		base := *s
		base.URL, base.Path = to.Scheme+"://"+to.Host, to.RequestURI()
		s = &base
	}

	defaults := DefaultSettings()
	all := reflect.ValueOf(s)
	for _, o := range options {
		v := fieldOf(all, o.Name)
		switch {
		case o.Name == "entries" && s.Entries >= endless: // AIPerf would make all of them before the load
		case o.Flag == "" || !o.Always && (v.IsZero() ||
			reflect.DeepEqual(v.Interface(), fieldOf(reflect.ValueOf(&defaults), o.Name).Interface())):
		case v.Kind() == reflect.Bool && !v.Bool():
		case v.Kind() == reflect.Bool:
			out = append(out, o.Flag)
		case v.Kind() == reflect.String:
			out = append(out, o.Flag, quoted(v))
		case v.Kind() == reflect.Map:
			for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int {
				return strings.Compare(a.String(), b.String())
			}) {
				out = append(out, o.Flag, quoted(fmt.Sprintf("%s:%s", key, v.MapIndex(key))))
			}
		case o.Scale != 0:
			out = append(out, o.Flag, fmt.Sprint(o.Scale*v.Convert(reflect.TypeFor[float64]()).Float()))
		default:
			out = append(out, o.Flag, fmt.Sprint(v))
		}
	}

	if s.Tokenizer == "" {
		out = append(out, "--use-server-token-count")
	}

	if len(s.SLO) > 0 {
		var goals []string
		for _, name := range slices.Sorted(maps.Keys(s.SLO)) {
			goals = append(goals, fmt.Sprintf("%s:%v", name, s.SLO[name]))
		}
		out = append(out, "--goodput", quoted(strings.Join(goals, " ")))
	}

	return strings.Join(out, " ")
}

// jsonOf formats a value as a plan writes it.
func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("load: a default is no JSON: " + err.Error())
	}
	return string(raw)
}

// defaultJSON returns the default as a plan writes it, or "" if it is an empty text, list or map.
func (o Option) defaultJSON() string {
	switch {
	case o.Default != nil:
		return jsonOf(o.Default)
	case o.Kind() == "number":
		return "0"
	}
	return ""
}

// DefaultText returns the default as a plan writes it, or a description of it.
func (o Option) DefaultText() string { return cmp.Or(o.Depends, o.defaultJSON()) }

// runtimeOptions are the options of the runtime block.
var runtimeOptions = []Option{
	{Name: "model", Required: true, Doc: "the name by which the server knows the model", Flag: "--model"},
	{Name: "endpoint_type", Default: openai.Chat, Depends: "the grid's op",
		OneOf: openai.Endpoints(), Doc: "API that requests use", Flag: "--endpoint-type", Always: true},
	{Name: "endpoint", Doc: "path of the API if it is not the usual one", Flag: "--endpoint"},
	{Name: "streaming", Default: true, Doc: "whether responses are streamed", Flag: "--streaming",
		Always: true},
	{Name: "url", Default: "localhost:8000", Check: checkURL,
		Doc:  "address of the server, with or without a scheme and the path of the API; a query is sent with each request",
		Flag: "--url"},
	{Name: "urls", Check: checkURL, Doc: "several servers that share the load, instead of url"},
	{Name: "url_weights", Doc: "shares of servers of urls that are not 1, by URL"},
	{Name: "models",
		Doc: "several models with their shares of the requests, such as LoRA adapters; requests do not use model then"},
	{Name: "generators",
		Doc: "commands that run aicplan, each for a further generator of the load, such as `ssh node2 aicplan`"},
	{Name: "headers", Doc: "additional headers, none with a secret"},
	{Name: "api_key", Secret: true, Doc: "the API key, from a sensitive variable"},
	{Name: "api_key_env", Beside: true, Doc: "environment variable that contains the API key"},
	{Name: "api_key_file", Beside: true, Doc: "file that contains the API key"},
	{Name: "api_key_header", Beside: true, Default: authorization, Check: checkKeyHeader,
		Doc: "header with the key, such as api-key of Azure; all but Authorization have it without Bearer"},
	{Name: "ca_file", Beside: true,
		Doc: "PEM file with certificates of a private authority, trusted in addition to the system's"},
	{Name: "extra_inputs", Doc: "an object that is merged into every request body", Flag: "--extra-inputs"},
	{Name: "request_timeout", Default: 21600, Positive: true, Doc: "maximum seconds of a request",
		Flag: "--request-timeout-seconds"},
	{Name: "require_done", Default: true, Doc: "whether a stream without [DONE] is an error"},
	{Name: "tokenizer",
		Doc: "folder with the model's tokenizer.json; without it, the server's token counts are used", Flag: "--tokenizer"},
	{Name: labels, Beside: true, Doc: "columns of the grid that only name a case"},
}

// loadOptions are the options of the load block.
var loadOptions = []Option{
	{Name: "concurrency", Most: 100_000, Depends: "1 without a rate",
		Doc: "number of open requests; with a rate, their maximum", Flag: "--concurrency"},
	{Name: "prefill_concurrency", Flag: "--prefill-concurrency",
		Doc: "maximum number of requests that wait for their first token; needs a stream; 0 is unlimited"},
	{Name: "concurrency_ramp", Doc: "seconds in which concurrency grows to its value",
		Flag: "--concurrency-ramp-duration"},
	{Name: "request_rate", Flag: "--request-rate",
		Doc: "requests per second; 0 sends the next request as soon as concurrency allows"},
	{Name: "request_rate_ramp", Needs: "request_rate", Doc: "seconds in which the rate grows to its value",
		Flag: "--request-rate-ramp-duration"},
	{Name: "arrival", Default: workload.Poisson, OneOf: workload.Patterns(), Needs: "request_rate",
		Doc:  "arrival process of a rate",
		Flag: "--arrival-pattern"},
	{Name: "arrival_smoothness", Default: 1, Positive: true, Doc: "shape of gamma arrivals; larger is smoother"},
	{Name: "users", Flag: "--num-users",
		Doc: "number of users who share request_rate, each with evenly spaced turns; 0 is arrivals without users"},
	{Name: "requests", Depends: "the larger of 10 and twice the concurrency", Doc: "number of requests",
		Flag: "--request-count"},
	{Name: "duration", Doc: "seconds after which no further request is sent", Flag: "--benchmark-duration"},
	{Name: "grace", Default: 30, Doc: "seconds that open requests may take after duration",
		Flag: "--benchmark-grace-period"},
	{Name: "sessions", Doc: "number of conversations to start", Flag: "--conversation-num"},
	{Name: "max_errors", Doc: "number of failed requests that ends the load; 0 is unlimited",
		Flag: "--failed-request-threshold"},
	{Name: "max_error_rate", Share: true,
		Doc: "share of failed requests that ends the load, from 20 requests on; 0 is unlimited"},
	{Name: "max_consecutive_errors", Default: 1000,
		Doc: "number of failed requests without a success in between that ends the load; 0 is unlimited"},
	{Name: "over_saturation",
		Doc: "seconds, more than responses take, after which a load ends whose unanswered requests keep growing; 0 is never"},
	{Name: "batch",
		Doc: "number of requests sent at once; the next batch starts when the last of them has ended"},
	{Name: "repeats", Default: 1, Positive: true,
		Doc:  "number of times that the load point is measured; the row has means and confidence intervals",
		Flag: "--num-profile-runs"},
	{Name: "warmup_requests", Doc: "number of requests sent first, excluded from the results",
		Flag: "--warmup-request-count"},
	{Name: "isl", Default: 550, Least: 1, Most: workload.MaxTokens, Doc: "mean tokens of a prompt",
		Flag: "--synthetic-input-tokens-mean"},
	{Name: "isl_stddev", Doc: "standard deviation of isl", Flag: "--synthetic-input-tokens-stddev"},
	{Name: "osl", Most: workload.MaxTokens, Depends: "the server's choice",
		Doc: "mean tokens requested for an output", Flag: "--output-tokens-mean"},
	{Name: "osl_stddev", Needs: "osl", Generated: true, Doc: "standard deviation of osl",
		Flag: "--output-tokens-stddev"},
	{Name: "entries", Generated: true,
		Doc:  "number of different conversations, reused if there are fewer than requests; 0 is one for every request",
		Flag: "--num-dataset-entries"},
	{Name: "sampling", Default: SamplingSequential, OneOf: []string{SamplingSequential, SamplingShuffle},
		Doc: "order of conversations", Flag: "--dataset-sampling-strategy", Always: true},
	{Name: "prefix_length", Generated: true, Doc: "tokens of a shared text that starts conversations",
		Flag: "--prefix-prompt-length"},
	{Name: "prefix_pool", Default: 1, Positive: true, Needs: "prefix_length", Doc: "number of such texts",
		Flag: "--prefix-prompt-pool-size"},
	{Name: "turns", Default: 1, Generated: true, Least: 1, Most: 1e6, Doc: "mean number of turns of a conversation",
		Flag: "--conversation-turn-mean"},
	{Name: "turns_stddev", Generated: true, Doc: "standard deviation of turns",
		Flag: "--conversation-turn-stddev"},
	{Name: "turn_delay", Generated: true, Doc: "mean seconds between a response and the next turn",
		Flag: "--conversation-turn-delay-mean", Scale: 1e3},
	{Name: "turn_delay_stddev", Generated: true, Doc: "standard deviation of turn_delay",
		Flag: "--conversation-turn-delay-stddev", Scale: 1e3},
	{Name: "prompt", Default: PromptText, OneOf: []string{PromptText, PromptIDs},
		Doc: "form of prompts; token ids need completions"},
	{Name: "vocabulary", Default: 30_000, Least: workload.MinVocabulary, Most: math.MaxInt32,
		Doc: "upper bound of token ids"},
	{
		Name: "trace",
		Doc:  "recorded trace of mooncake, Bailian, BurstGPT, coding agents or OpenTelemetry; replaces prompts and arrivals",
		Flag: "--input-file",
	},
	{Name: "trace_speed", Default: 1, Needs: "trace", Positive: true, Doc: "speedup of a trace's replay"},
	{
		Name: "dataset",
		Doc:  "file with prompts: text, CSV, Parquet, OpenAI messages or ShareGPT; replaces synthetic prompts",
		Flag: "--input-file",
	},
	{Name: "documents", Depends: "1 for embeddings and rerank",
		Doc: "number of texts of a request, each with isl tokens"},
	{Name: "query_length", Default: 32, Positive: true, Doc: "tokens of the query of rerank"},
	{Name: "images", Generated: true, Doc: "number of generated images of a chat request",
		Flag: "--image-batch-size"},
	{Name: "image_width", Default: 512, Needs: "images", Least: 1, Most: 8192, Doc: "pixels of an image",
		Flag: "--image-width-mean"},
	{Name: "image_height", Default: 512, Needs: "images", Least: 1, Most: 8192, Doc: "pixels of an image",
		Flag: "--image-height-mean"},
	{Name: "cancel_share", Share: true, Doc: "share of requests that the client cancels",
		Flag: "--request-cancellation-rate", Scale: 100},
	{Name: "cancel_delay", Needs: "cancel_share", Doc: "seconds after which they are cancelled",
		Flag: "--request-cancellation-delay"},
	{Name: "slo", Doc: "limits of good requests by metric, such as { ttft = 200 }"},
	{Name: "cache_reset", Default: ResetAuto, OneOf: []string{ResetAuto, ResetRequire, ResetNever},
		Doc: "whether the server's prefix cache is cleared first"},
	{Name: "server_metrics", Default: 1, Beside: true,
		Doc: "seconds between two readings of the server's metrics page; 0 is never"},
	{Name: "slice", Beside: true,
		Doc: "seconds of a time slice; with it, metrics of each slice are kept with the row", Flag: "--slice-duration"},
	{Name: "request_log", Default: LogRecords, OneOf: []string{LogRecords, LogNone}, Beside: true,
		Doc: "whether the row keeps a line for each request"},
	{Name: "seed", Flag: "--random-seed", Always: true,
		Doc: "random seed of prompts, order, arrivals and cancellations, together with the case"},
}

// AddressOf returns the host and the port of a server URL, with or without a scheme.
func AddressOf(url string) (string, error) {
	u, err := parseURL(url)
	if err != nil {
		return "", err
	}
	return Address(u)
}

func checkURL(text string) error {
	_, err := AddressOf(text)
	return err
}
