#!/bin/bash
timeout 2 bash -c "cat < /dev/tcp/192.0.2.18/18097" 2> /dev/null || echo refused > /answer
