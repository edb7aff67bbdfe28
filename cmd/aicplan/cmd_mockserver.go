package main

import (
	"fmt"
	"time"

	"aicplan/cudaops/load/loadtest"
	"aicplan/sink/base/fileutil"
)

type mockServerCmd struct {
	Listen      string        `name:"listen" default:"127.0.0.1:0" placeholder:"ADDRESS" help:"Address to listen on."`
	AddressFile string        `name:"address-file" placeholder:"FILE" help:"Write HOST:PORT to this file after the start."`
	TTFT        time.Duration `name:"ttft" placeholder:"TIME" help:"Time from a request to its first token."`
	ITL         time.Duration `name:"itl" placeholder:"TIME" help:"Time between tokens."`
	TTFTSpread  time.Duration `name:"ttft-spread" placeholder:"TIME" help:"Vary the time to the first token by this much."`
	Slots       int           `name:"slots" help:"Serve this many requests at the same time; others wait."`
	TokenSpread int           `name:"token-spread" help:"Vary the number of tokens by this many."`
	SkipTok     bool          `name:"skip-tokenizer" help:"Provide no tokenizer; prompts are token ids."`
	ProfileDir  string        `name:"profile-dir" placeholder:"DIR" help:"Write traces at /stop_profile to this folder."`
	Traces      []string      `name:"profile-trace" sep:"none" placeholder:"FILE" help:"A rank's trace for /stop_profile."`
	Key         string        `name:"key" placeholder:"KEY" help:"Require this API key."`
	KeyHeader   string        `name:"key-header" placeholder:"NAME" help:"Header with the key; bearer token by default."`
	Truth       bool          `name:"truth" help:"Record requests and answers for GET /truth."`

	Faults []string `name:"fault" sep:"none" placeholder:"KIND" help:"KIND[:every=N,first=N,after=N,status=N,delay=TIME]"`
}

// Help implements kong.HelpProvider.
func (c *mockServerCmd) Help() string {
	return `An OpenAI-compatible server for trying load: exact delays and the faults of real servers. It answers
chat/completions, completions, responses, embeddings and rerank below any path, /v1/models, /health and, with --truth,
/truth; with --profile-dir, /start_profile and /stop_profile.

Faults: status, error_event, cut, eof, reset, no_done, bad_json, empty, no_tokens, html, hang, slow_head, short,
wrong_usage, bad_chunk.

Example:
  aicplan mock-server --listen 127.0.0.1:8000 --ttft 200ms --itl 20ms --fault cut:every=5,after=4

Exit code 0 when a signal ends it.`
}

// Run serves until a signal arrives.
func (c *mockServerCmd) Run(a *app) error {
	o := loadtest.Options{
		TTFT: c.TTFT, ITL: c.ITL, TTFTSpread: c.TTFTSpread, Tokens: 16, TokenSpread: c.TokenSpread, Slots: c.Slots,
		Key: c.Key, KeyHeader: c.KeyHeader, Truth: c.Truth, SkipTokenizer: c.SkipTok, ProfileDir: c.ProfileDir,
		ProfileTraces: c.Traces,
	}

	for _, text := range c.Faults {
		f, err := loadtest.ParseFault(text)
		if err != nil {
			return err
		}
		o.Faults = append(o.Faults, f)
	}

	s, err := loadtest.New(o)
	if err != nil {
		return err
	}

	l, err := listen(c.Listen)
	if err != nil {
		return err
	}

	if c.AddressFile != "" {
		if _, err := fileutil.WriteFile(c.AddressFile, []byte(l.Addr().String()+"\n")); err != nil {
			return err
		}
	}

	fmt.Fprintf(a.stdout, "listening on http://%s\n", l.Addr())
	a.endPlanning() // a signal ends this command with exit code 0
	ctx, stop := untilSignal()
	defer stop()
	return s.Serve(ctx, l)
}
