package load

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/loadtest"
	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/worker"
)

// TestEndpoints checks the times and counts of each API against the mock server.
func TestEndpoints(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		set      func(*Settings)
		latency  float64
		want     map[string]float64
	}{
		{"responses", func(*Settings) {}, 340, map[string]float64{"time_to_first_token": 200, "inter_token_latency": 20,
			"output_sequence_length": 8, "input_sequence_length": 10}},
		{"responses", func(s *Settings) { s.Streaming = false }, 340, map[string]float64{"output_sequence_length": 8}},
		{"embeddings", func(s *Settings) { s.Documents = 3 }, 200, map[string]float64{"total_items": 48,
			"input_sequence_length": 32 + 30}},
		{"rerank", func(s *Settings) { s.Documents, s.Query = 5, 4 }, 200, map[string]float64{"total_items": 80,
			"input_sequence_length": 54}},
	} {
		t.Run(c.endpoint, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := quick()
				set.EndpointType = openai.Endpoint(c.endpoint)
				c.set(&set)
				srv := server(t, loadtest.Options{TTFT: 200 * time.Millisecond, ITL: 20 * time.Millisecond})
				res, _ := start(t, srv, set, Options{})
				s := res.Profiling.Summary
				if s.Succeeded != 16 || s.Failed != 0 {
					t.Fatalf("%+v", s.Errors)
				}
				near(t, "latency", avg(t, s, "request_latency"), c.latency)
				for tag, want := range c.want {
					if c.endpoint == "embeddings" && tag == "input_sequence_length" {
						want = 30 // embeddings have no query
					}
					near(t, tag, avg(t, s, tag), want)
				}
			})
		})
	}
}

// TestRerankOfSGLang checks a response that is a list of documents, as /v1/rerank of SGLang has it.
func TestRerankOfSGLang(t *testing.T) {
	url := raw(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[{"score":0.9,"document":"a","index":1,"meta_info":{}},{"score":0.1,"document":"b","index":0}]`)
	})
	e := measure(t, map[string]any{"url": url, "model": "m"}, `{"load": {"requests": 4, "documents": 2}}`, "rerank", `{}`)
	if e.failure != nil {
		t.Fatalf("%+v", e.failure)
	}
	if r := e.rows[0]; r["succeeded"] != 4 || r["items"] != 8.0 {
		t.Errorf("%v of 4 requests succeeded with %v documents, want 8", r["succeeded"], r["items"])
	}
}

// TestRerankWithTotalTokens checks a usage that has only the total, as Jina's API has it.
func TestRerankWithTotalTokens(t *testing.T) {
	url := raw(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"results":[{"index":0,"relevance_score":0.9}],"usage":{"total_tokens":7}}`)
	})
	e := measure(t, map[string]any{"url": url, "model": "m"}, `{"load": {"requests": 2}}`, "rerank", `{}`)
	if e.failure != nil || e.rows[0]["input_length"] != 7.0 {
		t.Errorf("%+v %v, want 7 tokens of input", e.failure, e.rows)
	}
}

// TestDatasets checks what is sent for each format of a file with prompts.
func TestDatasets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("dot.png", "\x89PNG")
	for _, c := range []struct {
		name, text string
		bodies     []string // parts of the bodies in order
	}{
		{"a.txt", "one two\n\nthree\n", []string{`"content":"one two"`, `"content":"three"`}},
		{"a.csv", "id,prompt,output_length\n1,\"x, y\",3\n2,z,\n",
			[]string{`"content":"x, y"}],"model":"mock","stream":true,"max_completion_tokens":3,`, `"content":"z"`}},
		{"a.jsonl", `{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}], "tools": ` +
			`[{"type":"function"}]}` + "\n" +
			`{"messages": [{"role": "user", "content": [{"type": "text", "text": "what"}, {"type": "image_url", "image_url": ` +
			`{"url": "dot.png"}}]}]}`,
			[]string{`"messages":[{"role":"system","content":"be ` +
				`brief"},{"role":"user","content":"hi"}],"tools":[{"type":"function"}]`,
				`"data:image/png;base64,iVBORw=="`}},
		{"a.json", `[{"id": "q", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, ` +
			`{"from": "human", "value": "c"}]}]`,
			[]string{`"messages":[{"role":"user","content":"a"}]`,
				`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":" alpha ` +
					`bravo"},{"role":"user","content":"c"}]`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(c.name, c.text)
			synctest.Test(t, func(t *testing.T) {
				set := quick()
				set.Dataset, set.Concurrency, set.Requests, set.OSL = path, 1, 0, 2
				srv := server(t, loadtest.Options{TTFT: time.Millisecond})
				res, _ := start(t, srv, set, Options{})
				truth := srv.Truths()
				if len(truth) != len(c.bodies) || res.Prompts != "dataset" {
					t.Fatalf("%d requests, %s", len(truth), res.Prompts)
				}
				for i, part := range c.bodies {
					if body := string(truth[i].Body); !strings.Contains(body, part) || !json.Valid(truth[i].Body) {
						t.Errorf("%s has no %s", body, part)
					}
				}
			})
		})
	}

	files, err := InputFiles("", filepath.Join(dir, "a.jsonl"))
	want := []string{filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "dot.png")}
	if err != nil || !slices.Equal(files, want) {
		t.Errorf("the files of the dataset are %v, %v", files, err)
	}

	for name, want := range map[string]string{
		"b.jsonl": "b.jsonl:2: it has no messages", "c.csv": "c.csv:2: it has no messages, conversations, prompt or text",
		"g.csv": `g.csv:2: output_length is "many"`, "d.xml": "a dataset is a .txt",
		"e.txt": "the dataset has no prompts", "f.jsonl": "f.jsonl:1: message 1 is no object with a role",
		"h.json": "h.json:2: message 1 of conversations has no from",
	} {
		text := map[string]string{"b.jsonl": "{\"prompt\":\"x\"}\n{\"x\":1}\n", "c.csv": "a,b\n1,2\n",
			"g.csv":   "prompt,output_length\nx,many\n",
			"f.jsonl": `{"messages":["x"]}`,
			"h.json":  `[{"prompt":"x"}, {"conversations":[{"role":"user","content":"y"}]}]`}[name]
		if _, err := InputFiles("", write(name, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestBurstTrace checks that a trace of BurstGPT is replayed at its times.
func TestBurstTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.csv")
	text := "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log " +
		"Type\n5,ChatGPT,12,3,15,x\n5.5,ChatGPT,9,0,9,x\n6,GPT-4,7,2,9,x\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Trace, set.Requests, set.Concurrency = path, 0, 0
		srv := server(t, loadtest.Options{})
		start(t, srv, set, Options{})
		truth := srv.Truths()
		if len(truth) != 2 || truth[0].Prompt != 12 || truth[0].Asked != 3 || truth[1].Prompt != 7 ||
			time.Duration(truth[1].Received-truth[0].Received) != time.Second {
			t.Errorf("%+v", truth)
		}

		set.Sampling = SamplingShuffle // would send requests of later times first, and the earlier ones late
		_, err := Run(t.Context(), set, Options{Dial: srv.Dial})
		if err == nil || !strings.Contains(err.Error(), "have times") {
			t.Error(err)
		}
	})
}

// TestWarmupOfATrace checks that the first requests of a replay are not those of the warm-up.
func TestWarmupOfATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	var text strings.Builder
	for i := range 8 {
		fmt.Fprintf(&text, "{\"timestamp\": %d, \"input_length\": 20, \"output_length\": 2}\n", i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Trace, set.Requests, set.WarmupRequests, set.Concurrency = path, 5, 3, 0
		_, recs := start(t, server(t, loadtest.Options{}), set, Options{})
		seen := map[string]bool{}
		for _, r := range recs {
			seen[r.Conversation] = true
		}
		if len(recs) != 8 || len(seen) != 8 {
			t.Errorf("%d requests of %d conversations, want 8 of 8", len(recs), len(seen))
		}
	})
}

// TestAgenticTrace checks that requests with whole prompts are sent once, without the responses before them, even if
// there are more places than conversations. The pause of 2 s between them is divided by the trace speed.
func TestAgenticTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.jsonl")
	text := `{"id": "x", "block_size": 64, "requests": [{"t": 0, "in": 64, "out": 2, "hash_ids": [1], "api_time": 1}, ` +
		`{"t": 3, "in": 70, "out": 2, "hash_ids": [1]}]}`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, concurrency := range []int{0, 4} {
		synctest.Test(t, func(t *testing.T) {
			set := quick()
			set.Trace, set.Requests, set.Concurrency, set.TraceSpeed = path, 0, concurrency, 4
			srv := server(t, loadtest.Options{})
			res, _ := start(t, srv, set, Options{})
			truth := srv.Truths()
			if len(truth) != 2 || truth[0].Prompt != 64 || truth[1].Prompt != 70 || res.EndedBy != "requests" ||
				time.Duration(truth[1].Received-truth[0].Received) != 500*time.Millisecond {
				t.Errorf("%s: %+v", res.EndedBy, truth)
			}
		})
	}
}

// TestImages checks that each request has images of its own, which are counted apart from the prompt's tokens.
func TestImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Images, set.ImageWidth, set.ImageHeight = 2, 20, 10
		srv := server(t, loadtest.Options{TTFT: time.Millisecond})
		res, _ := start(t, srv, set, Options{})
		near(t, "images", avg(t, res.Profiling.Summary, "total_images"), 32)
		near(t, "ISL", avg(t, res.Profiling.Summary, "input_sequence_length"), 10)
		seen := map[string]bool{}
		for _, tr := range srv.Truths() {
			var b struct {
				Messages []struct {
					Content []struct {
						Image struct{ URL string } `json:"image_url"`
					}
				}
			}
			if err := json.Unmarshal(tr.Body, &b); err != nil || len(b.Messages) != 1 || len(b.Messages[0].Content) != 3 {
				t.Fatalf("%v: %s", err, tr.Body)
			}
			for _, p := range b.Messages[0].Content[1:] {
				if !strings.HasPrefix(p.Image.URL, "data:image/png;base64,") {
					t.Fatalf("%.100s", p.Image.URL)
				}
				seen[p.Image.URL] = true
			}
		}
		if len(seen) < 30 {
			t.Errorf("%d different images", len(seen))
		}
	})
}

// TestSeveralServersAndModels checks the shares of servers and of the models on each, and the figures of each.
func TestSeveralServersAndModels(t *testing.T) {
	fast, a := listen(t, loadtest.Options{Truth: true})
	slow, b := listen(t, loadtest.Options{Truth: true, TTFT: 30 * time.Millisecond})
	e := measure(t, map[string]any{"urls": []any{a, b}, "url_weights": map[string]any{a: 3}, "model": "base",
		"models": map[string]any{"base": 1, "lora": 1}}, `{"load": {"requests": 40, "concurrency": 4, "osl": 2}}`, "chat", `{}`)
	if e.failure != nil {
		t.Fatalf("%+v", e.failure)
	}
	h := NewHost(worker.Init{Options: map[string]any{"urls": []any{a, b}, "model": "m"}})
	if hello, err := h.Hello(t.Context()); err != nil || hello.Device != a {
		t.Errorf("the device is %q, want %q: %v", hello.Device, a, err)
	}
	if fast.Requests() != 30 || slow.Requests() != 10 {
		t.Errorf("the servers had %d and %d requests, want 30 and 10", fast.Requests(), slow.Requests())
	}
	for server, want := range map[*loadtest.Server]string{fast: "map[base:15 lora:15]", slow: "map[base:5 lora:5]"} {
		models := map[string]int{}
		for _, tr := range server.Truths() {
			var body struct{ Model string }
			if err := json.Unmarshal(tr.Body, &body); err != nil {
				t.Fatal(err)
			}
			models[body.Model]++
		}
		if fmt.Sprint(models) != want {
			t.Errorf("a server had the models %v, want %s", models, want)
		}
	}
	var got map[string]map[string]map[string]float64
	for _, f := range e.attached {
		if f.Name == TargetsFile {
			if err := json.Unmarshal(f.Data, &got); err != nil {
				t.Fatal(err)
			}
		}
	}
	if u := got["url"]; u[a]["requests"] != 30 || u[b]["requests"] != 10 || !(u[b]["ttft"] >= 30) ||
		!(u[a]["ttft"] < 30) ||
		got["model"]["lora"]["requests"] != 20 {
		t.Errorf("%v", got)
	}
	for by, parts := range got { // rates have the window of the load, so that they can be added up
		sum, whole := 0.0, e.rows[0]["request_throughput"].(float64)
		for _, part := range parts {
			sum += part["request_throughput"]
		}
		if math.Abs(sum-whole) > 1e-9*whole {
			t.Errorf("the load has %v requests/s, its parts by %s %v", whole, by, sum)
		}
	}
}
