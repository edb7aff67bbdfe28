package contract

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// gateway answers like Azure OpenAI: each deployment has a path, the query has a version, and the key is in the header
// api-key. It refuses the first request of each API and returns the key.
type gateway struct {
	*httptest.Server
	mu    sync.Mutex
	seen  map[string]int    // requests by method and URI
	wrong map[string]string // unexpected headers by method and URI
}

const (
	gatewayKey   = "sk-gateway-very-secret"
	gatewayQuery = "api-version=2024-10-21&team=%C3%BC"
)

// answers are whole responses by API.
var answers = map[string]string{
	"chat/completions": `{"choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`,
	"completions": `{"choices":[{"index":0,"text":"a b","finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`,
	"responses": `{"object":"response","status":"completed","output":[{"type":"message","content":[` +
		`{"type":"output_text","text":"a b"}]}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}`,
	"embeddings": `{"object":"list","data":[{"index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`,
	"rerank":     `{"results":[{"index":0,"relevance_score":0.5}],"usage":{"prompt_tokens":3,"total_tokens":3}}`,
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{seen: map[string]int{}, wrong: map[string]string{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := r.Method + " " + r.RequestURI
	g.mu.Lock()
	g.seen[at]++
	n := g.seen[at]
	// The version is read before the key.
	if key := r.Header.Get("Api-Key"); key != gatewayKey && !strings.HasSuffix(r.URL.Path, "/version") ||
		r.Header.Get("Authorization") != "" {
		g.wrong[at] = fmt.Sprintf("api-key %q, Authorization %q", key, r.Header.Get("Authorization"))
	}
	g.mu.Unlock()

	api, ok := strings.CutPrefix(r.URL.Path, "/gw/openai/deployments/d/")
	switch {
	case r.URL.RawQuery != gatewayQuery, !ok && r.URL.Path != "/metrics":
		http.NotFound(w, r)
	case !ok:
		fmt.Fprintf(w, "# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total %d\n"+
			"# TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total %d\n", 8*n, 2*n)
	case answers[api] == "":
		http.NotFound(w, r)
	case n == 1:
		http.Error(w, `{"error":{"message":"the key `+gatewayKey+` is blocked"}}`, http.StatusForbidden)
	default:
		io.WriteString(w, answers[api])
	}
}

// TestAPIKeyHeader puts load on each API of a server that takes the key from its own header and a version from the
// query of the URL. The key must be in no file.
func TestAPIKeyHeader(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	plan, ops := "", map[string]string{"chat": "chat/completions", "completions": "completions",
		"responses": "responses", "embeddings": "embeddings", "rerank": "rerank"}
	for op, api := range ops {
		plan += fmt.Sprintf(`
runtime "%[1]s" {
  kind           = "endpoint"
  url            = "%[2]s/gw/openai/deployments/d/%[3]s?%[4]s"
  model          = "m"
  streaming      = false
  api_key_env    = "GATEWAY_KEY"
  api_key_header = "api-key"
}
grid "%[1]s" {
  op = "%[1]s"
  axis "requests" { values = [4] }
}
collect "%[1]s" {
  grid    = grid.%[1]s
  runtime = runtime.%[1]s
}
export "%[1]s" {
  input  = collect.%[1]s
  layout = "aiperf"
  dir    = "%[1]s"
}
`, op, g.URL, api, gatewayQuery)
	}

	f := newFolder(t, "plan.hcl", plan)
	f.env = []string{"GATEWAY_KEY=" + gatewayKey}
	out := f.expect(0, "apply", "--log-level", "trace", "--out-dir", "out", "plan.hcl")
	f.write("printed", string(out.stdout)+string(out.stderr))

	g.mu.Lock()
	defer g.mu.Unlock()
	for op, api := range ops {
		found := rows(t, f.expect(0, "show", "--json", "collect."+op).stdout)
		if len(found) != 1 || found[0]["succeeded"] != 3.0 || found[0]["failed"] != 1.0 {
			t.Errorf("%s: %v, want 3 of 4 requests", op, found)
			continue
		}
		within(t, found[0], "cache_hit_rate", 0.25, 0.25)
		if n := g.seen["POST /gw/openai/deployments/d/"+api+"?"+gatewayQuery]; n != 4 {
			t.Errorf("%s: %d requests have the path and the query: %v", op, n, g.seen)
		}
	}
	for at, what := range g.wrong {
		t.Errorf("%s has %s", at, what)
	}

	blocked := false
	err := filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), gatewayKey) {
			t.Errorf("%s has the key", path)
		}
		blocked = blocked || strings.Contains(string(data), "the key (sensitive value) is blocked")
		return err
	})
	if err != nil || !blocked {
		t.Errorf("no file has the server's message without the key (%v)", err)
	}
}

// TestSecretsInURLs checks that a URL with a secret in its query is an error of the plan, in a runtime and in a grid.
func TestSecretsInURLs(t *testing.T) {
	t.Parallel()
	const plan = `
variable "url" {}
runtime "server" {
  kind  = "endpoint"
  model = "m"
  %s
}
grid "load" {
  op = "chat"
  axis "%s" { values = [%s] }
}
collect "load" {
  grid    = grid.load
  runtime = runtime.server
}
`
	f := newFolder(t, "runtime.hcl", fmt.Sprintf(plan, "url = var.url", "requests", "1"),
		"list.hcl", fmt.Sprintf(plan, `urls = ["http://127.0.0.1:1", var.url]`, "requests", "1"),
		"grid.hcl", fmt.Sprintf(plan, "", "url", `var.url, "http://127.0.0.1:1"`))
	for _, name := range []string{"api_key", "api-key", "api%5Fkey", "key", "token", "access_token", "sig",
		"Password", "code"} {
		for _, file := range []string{"runtime.hcl", "list.hcl", "grid.hcl"} {
			r := f.expect(1, "apply", "--var", "url=http://127.0.0.1:1/v1?api-version=1&"+name+"=very-secret", file)
			text := strings.Join(strings.Fields(string(r.stderr)), " ")
			for _, part := range []string{file + " line ", "looks like a secret", "api_key_header"} {
				if !strings.Contains(text, part) {
					t.Errorf("%s, %s: the error does not have %q: %s", file, name, part, text)
				}
			}
			if strings.Contains(string(r.stdout)+text, "very-secret") {
				t.Errorf("%s, %s: the secret is in the error: %s", file, name, text)
			}
		}
	}
	if f.has(".aicplan") {
		t.Error("a plan with an error has written state")
	}
}
