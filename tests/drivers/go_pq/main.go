// lib/pq: its Listener connects and listens again by itself, and tells with a nil notification.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/lib/pq"
)

func main() {
	listener := pq.NewListener(os.Args[1]+" sslmode=disable", 20*time.Millisecond, time.Second,
		func(event pq.ListenerEventType, err error) {
			if event == pq.ListenerEventDisconnected {
				fmt.Println("lost", err)
			}
		})
	for listener.Listen("drivers") != nil {
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Println("ready")
	for {
		select {
		case n := <-listener.Notify:
			if n == nil {
				fmt.Println("ready")
			} else {
				fmt.Println("got", n.Extra)
			}
		case <-time.After(200 * time.Millisecond):
			go listener.Ping()
		}
	}
}
