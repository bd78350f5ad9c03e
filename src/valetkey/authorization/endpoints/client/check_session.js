// Written for any browser that can post messages: no arrow, no promise, no SubtleCrypto.
(function () {
  "use strict";
  var cookie = "COOKIE=";

  function mark() {
    var pairs = document.cookie.split("; ");
    for (var i = 0; i < pairs.length; i += 1) {
      if (pairs[i].indexOf(cookie) === 0) {
        return pairs[i].slice(cookie.length);
      }
    }
    return "";
  }

  // The first 32 bits of the fractional parts of a root of the first primes (FIPS 180-4, 4.2.2).
  function roots(count, power) {
    var found = [];
    for (var n = 2; found.length < count; n += 1) {
      var prime = true;
      for (var d = 2; d * d <= n; d += 1) {
        prime = prime && n % d !== 0;
      }
      if (prime) {
        var root = Math.pow(n, power);
        found.push(((root - Math.floor(root)) * 4294967296) | 0);
      }
    }
    return found;
  }

  var start = roots(8, 1 / 2);
  var constants = roots(64, 1 / 3);

  function turn(word, by) {
    return (word >>> by) | (word << (32 - by));
  }

  // SHA-256 of ASCII in hexadecimal (FIPS 180-4, 6.2).
  function sha256(text) {
    var words = [];
    var size = ((text.length + 8) >> 6) * 16 + 16;
    for (var i = 0; i < size; i += 1) {
      words.push(0);
    }
    for (i = 0; i < text.length; i += 1) {
      words[i >> 2] |= text.charCodeAt(i) << (24 - (i % 4) * 8);
    }
    words[text.length >> 2] |= 0x80 << (24 - (text.length % 4) * 8);
    words[size - 1] = text.length * 8;
    var hash = start.slice();
    for (var block = 0; block < size; block += 16) {
      var w = words.slice(block, block + 16);
      var s = hash.slice();
      for (i = 0; i < 64; i += 1) {
        if (i >= 16) {
          var x = w[i - 15];
          var y = w[i - 2];
          var low = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
          var high = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
          w[i] = (w[i - 16] + low + w[i - 7] + high) | 0;
        }
        var choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        var majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        var one = turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25);
        var two = turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22);
        var first = (s[7] + one + choice + constants[i] + w[i]) | 0;
        s = [(first + two + majority) | 0, s[0], s[1], s[2], (s[3] + first) | 0, s[4], s[5], s[6]];
      }
      for (i = 0; i < 8; i += 1) {
        hash[i] = (hash[i] + s[i]) | 0;
      }
    }
    var shown = "";
    for (i = 0; i < 8; i += 1) {
      shown += ("0000000" + (hash[i] >>> 0).toString(16)).slice(-8);
    }
    return shown;
  }

  function judge(parts, origin) {
    // Nobody is told of a session that there is not: who asks about none, anyone who can hash,
    // would only learn whether somebody is signed in.
    if (mark() === "") {
      return "changed";
    }
    var hash = sha256([parts[1], origin, mark(), parts[3]].join(" "));
    return hash === parts[2] ? "unchanged" : "changed";
  }

  function asked(event) {
    if (!event.source || !event.origin || event.origin === "null") {
      return;
    }
    function answer(said) {
      event.source.postMessage(said, event.origin);
    }
    // <client id> <hash>.<salt>
    var parts = null;
    if (typeof event.data === "string") {
      parts = /^([!-~]+) ([!-~]+)\.([!-~]+)$/.exec(event.data);
    }
    if (parts === null || parts[2].indexOf(".") >= 0) {
      answer("error");
    } else if (mark() === "" && document.hasStorageAccess) {
      // A browser that hides our cookies from frames knows nothing: no reason to sign anyone out.
      document.hasStorageAccess().then(
        function (may) { answer(may ? judge(parts, event.origin) : "error"); },
        function () { answer("error"); }
      );
    } else {
      answer(judge(parts, event.origin));
    }
  }

  window.addEventListener("message", asked, false);
})();
