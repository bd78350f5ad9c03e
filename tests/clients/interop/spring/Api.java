import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.security.core.annotation.AuthenticationPrincipal;
import org.springframework.security.oauth2.jwt.Jwt;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

@SpringBootApplication
@RestController
public class Api {

    @GetMapping("/")
    Map<String, String> hello(@AuthenticationPrincipal Jwt token) {
        return Map.of("client", token.getClaimAsString("client_id"));
    }

    public static void main(String[] arguments) {
        SpringApplication.run(Api.class, arguments);
    }
}
