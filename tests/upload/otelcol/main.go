// The OpenTelemetry Collector's own receiver (otlpreceiver), which writes what it accepts to a file as OTLP's JSON, a line each.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	out, err := os.Create(os.Args[2])
	check(err)
	var lock sync.Mutex
	write := func(line []byte, err error) error {
		lock.Lock()
		defer lock.Unlock()
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		return err
	}
	logs, err := consumer.NewLogs(func(_ context.Context, logs plog.Logs) error {
		return write((&plog.JSONMarshaler{}).MarshalLogs(logs))
	})
	check(err)
	metrics, err := consumer.NewMetrics(func(_ context.Context, metrics pmetric.Metrics) error {
		return write((&pmetric.JSONMarshaler{}).MarshalMetrics(metrics))
	})
	check(err)
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	check(confmap.NewFromStringMap(map[string]any{
		"protocols": map[string]any{"http": map[string]any{"endpoint": os.Args[1]}},
	}).Unmarshal(config))
	ctx := context.Background()
	settings := receivertest.NewNopSettings(factory.Type())
	l, err := factory.CreateLogs(ctx, settings, config, logs)
	check(err)
	m, err := factory.CreateMetrics(ctx, settings, config, metrics)
	check(err)
	host := componenttest.NewNopHost()
	check(l.Start(ctx, host))
	check(m.Start(ctx, host))
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)
	<-end
	check(l.Shutdown(ctx))
	check(m.Shutdown(ctx))
}
