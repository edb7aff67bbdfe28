package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"aicplan/cudaops/load/loadtest"
	"aicplan/sink/atomic"
)

type mockServerCmd struct {
	Listen      string        `name:"listen" default:"127.0.0.1:0" placeholder:"ADDRESS" help:"Listen there (127.0.0.1, any free port)."`
	AddressFile string        `name:"address-file" placeholder:"FILE" help:"Write host:port there once it listens."`
	TTFT        time.Duration `name:"ttft" placeholder:"TIME" help:"From a request to its first token (0)."`
	ITL         time.Duration `name:"itl" placeholder:"TIME" help:"From token to token (0)."`
	TTFTSpread  time.Duration `name:"ttft-spread" placeholder:"TIME" help:"Vary the first token by +- that much."`
	Tokens      int           `name:"tokens" default:"16" help:"Tokens for requests that ask for no number."`
	TokenSpread int           `name:"token-spread" help:"Vary the tokens by +- that many."`
	Reasoning   int           `name:"reasoning" help:"So many tokens are reasoning, first."`
	Usage       string        `name:"usage" default:"asked" enum:"asked,always,never,wrong" help:"When usage is told: asked, always, never, wrong."`
	PrefixCache bool          `name:"prefix-cache" help:"Have a prefix cache with metrics and a reset."`
	SkipTok     bool          `name:"skip-tokenizer" help:"Have no tokenizer: prompts are token ids, answers carry ids where they are asked for."`
	ProfileDir  string        `name:"profile-dir" placeholder:"DIR" help:"Have /start_profile and /stop_profile, which leaves traces there."`
	Traces      []string      `name:"profile-trace" sep:"none" placeholder:"FILE" help:"The trace of a rank that /stop_profile leaves; may be repeated."`
	Key         string        `name:"key" placeholder:"KEY" help:"Need this key."`
	Truth       bool          `name:"truth" help:"Keep what was received and sent, for GET /truth."`
	Faults      []string      `name:"fault" sep:"none" placeholder:"FAULT" help:"KIND[:every=N,first=N,after=N,status=N,delay=TIME]; may be repeated."`
}

// Help implements kong.HelpProvider.
func (c *mockServerCmd) Help() string {
	return `An OpenAI-compatible server for trying load: exact delays, and faults of real servers. It answers
/v1/chat/completions, /v1/completions, /v1/models, /health, /tokenize and, with -truth, /truth; with -profile-dir,
/start_profile and /stop_profile.

Faults: status, error_event, cut, eof, reset, no_done, bad_json, empty, no_tokens, html, hang, slow_head, short,
wrong_usage, bad_chunk.

  aicplan mock-server -listen 127.0.0.1:8000 -ttft 200ms -itl 20ms -fault cut:every=5,after=4

Exit code 0 when a signal ends it.`
}

// Run serves until a signal comes.
func (c *mockServerCmd) Run(a *app) error {
	o := loadtest.Options{
		TTFT: c.TTFT, ITL: c.ITL, TTFTSpread: c.TTFTSpread, Tokens: c.Tokens, TokenSpread: c.TokenSpread,
		Reasoning: c.Reasoning, Usage: c.Usage,
		PrefixCache: c.PrefixCache,
		Key:         c.Key, Truth: c.Truth, SkipTokenizer: c.SkipTok, ProfileDir: c.ProfileDir, ProfileTraces: c.Traces,
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
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", c.Listen, err)
	}
	if c.AddressFile != "" {
		if _, err := atomic.WriteFile(c.AddressFile, []byte(l.Addr().String()+"\n")); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.stdout, "listening on http://%s\n", l.Addr())
	a.endPlanning() // a signal is how this verb ends, with exit code 0
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return s.Serve(ctx, l)
}
