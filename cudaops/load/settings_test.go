package load

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/workload"
	"aicplan/cudaops/worker"
)

// TestTarget checks where requests of an endpoint go, and where other pages of the server may be.
func TestTarget(t *testing.T) {
	t.Parallel()
	const azure = "https://x/openai/deployments/d"
	for _, c := range []struct{ url, endpoint, path, want, metrics string }{
		{"localhost:8000", "chat", "", "http://localhost:8000/v1/chat/completions", "/metrics"},
		{"http://h/v1/", "rerank", "", "http://h/v1/rerank", "/metrics"},
		{"http://h/a/v1", "chat", "", "http://h/a/v1/chat/completions", "/a/metrics /metrics"},
		{"h/a%2Fb", "chat", "", "http://h/a%2Fb/v1/chat/completions", "/a/b/metrics /metrics"},
		{"h?to=http://y/", "chat", "", "http://h/v1/chat/completions?to=http://y/", "/metrics"},
		{azure + "/chat/completions?api-version=1&b=%20", "chat", "", azure + "/chat/completions?api-version=1&b=%20",
			"/openai/deployments/d/metrics /metrics"},
		{azure + "/completions", "completions", "", azure + "/completions", "/openai/deployments/d/metrics /metrics"},
		{"http://h/v1/responses/", "responses", "", "http://h/v1/responses/", "/metrics"},
		{"http://h/v1/embeddings?a", "embeddings", "", "http://h/v1/embeddings?a", "/metrics"},
		{"http://h/v2/rerank", "rerank", "", "http://h/v2/rerank", "/v2/metrics /metrics"},
		{"http://h", "chat", "generate", "http://h/generate", "/metrics"},
		{"http://h/a?b=1", "chat", "/generate", "http://h/a/generate?b=1", "/a/metrics /metrics"},
		{"http://h/generate?b=1", "chat", "/generate", "http://h/generate?b=1", "/generate/metrics /metrics"},
		{"http://h/v1/completions", "chat", "/chat", "http://h/v1/completions/chat", "/metrics"},

		{"http://h/v1/completions", "chat", "", `url ends in the path of endpoint_type "completions"`, ""},
		{"http://h/v1/chat/completions", "completions", "", `endpoint_type "chat", and endpoint_type is "completions"`, ""},
		{"http://h", "chat", "/chat?api-version=1", "move a query to url", ""},
		{"http://h", "chat", "/100%", "write %25 for a percent sign", ""},
		{"http://h?a=b c", "chat", "", "characters that must be escaped", ""},
		{"http://h?a;b", "chat", "", "characters that must be escaped", ""},
		{"http://h?a=%zz", "chat", "", "characters that must be escaped", ""},
		{"http://h#a", "chat", "", "fragment", ""},
		{"http:///v1?key=x", "chat", "", `the query parameter "key", which looks like a secret`, ""},
	} {
		s := Settings{URL: c.url, EndpointType: openai.Endpoint(c.endpoint), Path: c.path}
		to, err := newTarget(&s, c.url)
		if err != nil {
			if c.metrics != "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %s", c.url, c.endpoint, err, c.want)
			}
			continue
		}
		if got := to.url.String(); got != c.want || !strings.HasPrefix(to.url.RequestURI(), "/") {
			t.Errorf("%s, %s: %s, want %s", c.url, c.endpoint, got, c.want)
		}
		if got := strings.Join(probeOf(to.server, &http.Transport{}).paths("/metrics"), " "); got != c.metrics {
			t.Errorf("%s: pages %s, want %s", c.url, got, c.metrics)
		}
	}
}

// TestKeyHeaders checks the header with the key of requests and pages, and the errors of headers that cannot have it.
func TestKeyHeaders(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "Bearer k", "authorization": "Bearer k", "api-key": "k", "X-Team": "k",
		"api key": "is not the name", "ü": "is not the name", "a\r\nb": "is not the name", "Host": "another meaning",
		"X-Tenant": "carries a secret"} {
		s := quick()
		s.APIKey, s.APIKeyHeader, s.Headers = "k", name, map[string]string{"x-tenant": "t"}
		if err := s.Settle(); err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", name, err, want)
			}
			continue
		}
		h := header(s, "k")
		if got := h.Get(s.APIKeyHeader); got != want || want == "k" && h.Get("Authorization") != "" {
			t.Errorf("%q: %v", name, h)
		}
		if h := header(s, ""); slices.Contains(h.Values(s.APIKeyHeader), want) {
			t.Errorf("%q without a key: %v", name, h)
		}
	}
}

// TestCommandOfWholeURLs checks that AIPerf's command line has the URL of the requests. AIPerf adds a path to --url.
func TestCommandOfWholeURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"localhost:8000/a": "--url 'localhost:8000/a'",
		"https://x/openai/deployments/d/chat/completions?api-version=1": "--endpoint " +
			"'/openai/deployments/d/chat/completions?api-version=1' --streaming --url 'https://x'",
		"x?a=1": "--endpoint '/v1/chat/completions?a=1' --streaming --url 'http://x'",
	} {
		s := quick()
		s.URL = url
		if got := command(&s); !strings.Contains(got, " "+want+" ") {
			t.Errorf("%s: %s", url, got)
		}
		if s.URL != url || s.Path != "" {
			t.Errorf("%s: the settings have changed: %s %s", url, s.URL, s.Path)
		}
	}
}

// TestEmptyURLs checks that an empty list of servers is an error. The load would go to the default of url.
func TestEmptyURLs(t *testing.T) {
	t.Parallel()
	h := NewHost(worker.Init{Options: map[string]any{"urls": []any{}, "model": "m"}})
	err := h.Check(worker.Case{Op: "chat", Params: []byte(`{}`)})
	if err == nil || !strings.Contains(err.Error(), "urls is empty") {
		t.Error(err)
	}
}

// TestInputConfigHasNoEmptySettings checks that settings that are empty in the plan are not in AIPerf's input_config.
func TestInputConfigHasNoEmptySettings(t *testing.T) {
	t.Parallel()
	s := quick()
	s.ExtraInputs, s.SLO = map[string]json.RawMessage{}, map[string]float64{}
	raw, err := json.Marshal(inputConfig(&Traffic{Settings: s, Conversations: &workload.Set{}}))
	if err != nil || strings.Contains(string(raw), `"extra"`) || strings.Contains(string(raw), `"slos"`) ||
		!strings.Contains(string(raw), `"tokenizer":{}`) {
		t.Errorf("%s, error %v", raw, err)
	}
}
